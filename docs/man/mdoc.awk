# SPDX-License-Identifier: MIT
# Makes mdoc(7) of a comment's text.
#
# DESIGN
# A comment is paragraphs; "@parameter: ..." or "Label: ..." at the start of a line,
# continued by lines that begin with a tab; and other lines with a tab, as they are, or
# "- ..." for a list.  Errors of a "Return:" begin with their code, and end before the next
# one, or at a full stop; one without a text gets that of rnl_strerror().
# here[NAME] is a name that this page is about: others are references to other pages.
# own[NAME] is a parameter: "clear", or "word" if it is one of English, too.

# ---- marking: plain words become lines of mdoc --------------------------------

function flush_line() {
	if (line != "") {
		if (line ~ /^[.']/)
			line = "\\&" line
		print line
	}
	line = ""
}

# If a word has a pattern, prints it as a macro's line; without what @strip matches.
function token(word, pattern, macro, strip,   before, found, after, mark) {
	if (!match(word, pattern))
		return 0
	before = substr(word, 1, RSTART - 1)
	found = substr(word, RSTART, RLENGTH)
	after = substr(word, RSTART + RLENGTH)
	if (before !~ /^[[("]*$/)
		return 0
	if (strip)
		gsub(strip, "", found)
	gsub(/\001/, " ", found)
	if (macro == "Fn" && (found in about) && !(found in here)) {
		macro = "Xr"
		found = found " 3"
	} else if (macro == "Xr") {
		sub(/\(/, " ", found)
		sub(/\)/, "", found)
	}
	if (macro == "Er" || macro == "Ql")
		sub(/^-/, "\\-", found)
	flush_line()
	mark = before == "" ? "." macro : ".No \\&" before " Ns " macro
	mark = mark " " found
	if (after ~ /^[].,:;)?!]*$/) {
		gsub(/./, " &", after)
		print mark after
	} else {
		print mark " Ns " after
	}
	return 1
}

# Whether word i of w[] is a parameter, and not the English word.
function is_own(w, i) {
	return own[w[i]] == "clear" || (w[i + 1] ~ /^(is|was|or|of|has)$/ &&
		w[i - 1] !~ /^(the|The|a|A|an|that|this|one|other|whole|whose|of|its|open)$/)
}

# Prints a text, with what has a meaning marked up.
function say(text,   n, i, w, word) {
	gsub(/\\/, "\\e", text)
	n = split(text, w, /`/)
	text = w[1]
	for (i = 2; i <= n; i++) {
		if (i % 2 == 0)
			gsub(/[ \n]/, "\001", w[i])
		text = text "`" w[i]
	}
	gsub(/struct rnl_/, "struct\001rnl_", text)
	gsub(/enum rnl_/, "enum\001rnl_", text)
	n = split(text, w, /[ \t\n]+/)
	for (i = 1; i <= n; i++) {
		word = w[i]
		if (word == "")
			continue
		if (token(word, "(struct|enum)\001rnl_[a-z_]+", "Vt")) continue
		if (token(word, "[a-z]+\\([1-8]\\)", "Xr", "")) continue
		if (token(word, "[A-Za-z_][A-Za-z_0-9]*\\(\\)", "Fn", "[()]")) continue
		if (token(word, "-E[A-Z0-9]+", "Er")) continue
		if (token(word, "(RNL_[A-Z_0-9]+|NULL|UINT64_MAX)", "Dv")) continue
		if (token(word, "CUDA_[A-Z_]+", "Ev")) continue
		if (token(word, "@[a-z_]+", "Fa", "@")) continue
		if (token(word, "`[^`\001]+`", "Fa", "`")) continue
		if (token(word, "`[^`]+`", "Ql", "`")) continue
		if (token(word, "runnel(/[a-z]+)?\\.h", "In")) continue
		if (word in own && is_own(w, i)) {
			flush_line()
			print ".Fa " word
			continue
		}
		gsub(/\001/, " ", word)
		if (length(line) + length(word) > 78)
			flush_line()
		line = line == "" ? word : line " " word
		if (word ~ /[.!?][")]*$/ && w[i + 1] ~ /^["(]?[A-Z]/)
			flush_line()
	}
	flush_line()
}

# ---- comments -----------------------------------------------------------------

# One item of a list of errors: "-ECODE[, -ECODE ...] [what it means]".
function error_item(text,   word, code, codes) {
	sub(/[;.]?$/, ".", text)
	while (match(text, /^-E[A-Z0-9]+(, |\.$| )/)) {
		word = substr(text, 1, RLENGTH)
		text = substr(text, RLENGTH + 1)
		match(word, /E[A-Z0-9]+/)
		code = substr(word, RSTART, RLENGTH)
		codes = codes (codes == "" ? "" : " , ") "\\-" code
		if (word !~ /, $/)
			break
	}
	if (text == "" && !(code in strerror))
		die("rnl_strerror() has no text for " code)
	print ".It Er " codes
	say(text == "" ? strerror[code] "." : text)
}

# Prints what a function returns: its plain values, then a list of its errors, then the rest.
function returns(text,   n, i, clause, rest) {
	gsub(/[\n\t ]+/, " ", text)
	sub(/^ /, "", text)
	gsub(/[;.] -E/, "\001&", text)
	gsub(/\001[;.] /, "\001", text)
	gsub(/: -E/, ":\001-E", text)
	n = split(text, clause, "\001")
	i = 1
	if (clause[1] !~ /^-E/) {
		i = 2
		sub(/[.:;]$/, "", clause[1])
		say(clause[1] (n == 1 ? "." : clause[1] ~ /else/ ? ":" : "; else"))
	}
	if (i > n)
		return
	if (match(clause[n], /[.] [A-Z]/)) {
		rest = substr(clause[n], RSTART + 2)
		clause[n] = substr(clause[n], 1, RSTART)
	}
	print ".Bl -tag -compact -width \\-EOWNERDEAD"
	for (; i <= n; i++)
		error_item(clause[i])
	print ".El"
	say(rest)
}

# A comment tells of no parameter that there is not.
function known(label, tag,   n, i, name) {
	n = label ~ /^@/ ? split(tag, name, ", ") : 0
	for (i = 1; i <= n; i++)
		if (!(name[i] in own))
			die("no parameter is called " name[i])
}

# The longest tag that a comment's list has.
function widest(text,   n, lines, i, w, tag) {
	w = "Context"
	n = split(text, lines, "\n")
	for (i = 1; i <= n; i++)
		if (match(lines[i], /^(@[a-z_, @]+|[A-Z][a-z]+):/)) {
			tag = substr(lines[i], 1, RLENGTH - 1)
			gsub(/@/, "", tag)
			if (length(tag) > length(w))
				w = tag
		}
	return w
}

# Prints what was held back of a comment: a paragraph, an item, ...
function finish() {
	if (state == "label") {
		if (label == "Return")
			returns(held)
		else
			say(held)
	} else if (state == "bullet") {
		say(held)
		print ".El"
	} else if (state == "codes") {
		returns(held)
	} else if (state == "text") {
		say(held)
	} else if (state == "code") {
		print ".Ed"
	}
	held = ""
	state = ""
}

function leave_list() {
	if (in_list)
		print ".El"
	in_list = 0
}

function verbatim(text) {
	gsub(/\\/, "\\e", text)
	print (text ~ /^[.']/ ? "\\&" : "") text
}

# Prints a comment.
function tell(text,   n, i, l, lines, tag, w, fresh) {
	w = widest(text)
	n = split(text, lines, "\n")
	state = held = ""
	in_list = 0
	fresh = 1
	for (i = 1; i < n; i++) {
		l = lines[i]
		if (l ~ /^Since: /) {
			finish()
			continue
		}
		if (match(l, /^(@[a-z_]+(, @[a-z_]+)*|Context|Ordering|Return):/)) {
			tag = substr(l, 1, RLENGTH - 1)
			l = substr(l, RLENGTH + 1)
			finish()
			if (!in_list)
				print ".Bl -tag -compact -width \"" w "\""
			in_list = 1
			label = tag
			gsub(/@/, "", tag)
			known(label, tag)
			gsub(/,/, " ,", tag)
			print (label ~ /^@/ ? ".It Fa " : ".It Em ") tag
			held = l
			state = "label"
		} else if (state == "label" && l ~ /^\t/) {
			held = held "\n" l
		} else if (l ~ /^\t- /) {
			if (state == "bullet") {
				say(held)
			} else {
				finish()
				leave_list()
				print ".Bl -bullet -compact"
			}
			print ".It"
			held = substr(l, 4)
			state = "bullet"
		} else if (state == "bullet" && l ~ /^\t/) {
			held = held "\n" l
		} else if (l ~ /^\t/ || (state == "code" && l == "" && lines[i + 1] ~ /^\t/)) {
			if (state != "code") {
				finish()
				leave_list()
				print ".Bd -literal -offset indent"
			}
			state = "code"
			verbatim(substr(l, 2))
		} else if (l == "") {
			finish()
			leave_list()
			fresh = 0
		} else if (l ~ /^-E[A-Z0-9, -]*  /) {
			if (state != "codes")
				finish()
			state = "codes"
			held = held " " l
		} else {
			if (state != "text") {
				finish()
				if (in_list || !fresh) {
					leave_list()
					print ".Pp"
				}
				fresh = 0
				state = "text"
			}
			held = held "\n" l
		}
	}
	finish()
	leave_list()
}
