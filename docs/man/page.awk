# SPDX-License-Identifier: MIT
# Makes a manual page of its source, PAGE.in, and of the comments of the public headers.
#
# usage: awk -f header.awk -f mdoc.awk -f page.awk src/sys/abi.c HEADER ... PAGE.in >PAGE
#
# DESIGN
# What a function does, takes and returns stands once, in a header.  A page's source is
# mdoc(7) with lines that begin with @, in place of which comes what a header says:
#
#	@page DATE: WHAT	the page's head, up to and with its SYNOPSIS
#	@function NAME ...	one function; or several that share a comment
#	@type NAME ...		the same, of function types
#	@macro NAME		a macro with arguments
#	@struct NAME [FIELD ...] a structure, with all its fields or only these
#	@enum NAME		an enumeration
#	@about NAME		the comment alone; NAME is as above, or a header or its section
#	@constants NAME ...	macros without arguments
#	@error CODE		what rnl_strerror() says of it
#	@example ... @end	C, as it is
#
# A page is about one header, or a part of it.

# ---- prototypes -----------------------------------------------------------------

# Splits the arguments of a prototype at their commas: into args[]; how many they are.
function arguments(text, args,   n, depth, i, c) {
	sub(/^[^(]*\(/, "", text)
	sub(/\);?$/, "", text)
	split("", args)
	n = 1
	for (i = 1; i <= length(text); i++) {
		c = substr(text, i, 1)
		depth += (c == "(") - (c == ")")
		if (c == "," && !depth) {
			n++
			i++
		} else {
			args[n] = args[n] c
		}
	}
	return n
}

function prototype(name,   type, n, i, args) {
	type = shape[name]
	sub(/ *[A-Za-z_0-9]+\(.*/, "", type)
	if (type != "" && shape[name] ~ /;/)	# of a macro there is none
		print ".Ft \"" type "\""
	print ".Fo " name
	n = arguments(shape[name], args)
	for (i = 1; i <= n; i++)
		print ".Fa \"" args[i] "\""
	print ".Fc"
}

# Adds the names of a function's parameters to own[].
function parameters(name,   n, i, args) {
	n = arguments(shape[name], args)
	for (i = 1; i <= n; i++) {
		if (args[i] ~ /\(\*/)
			sub(/^[^*]*\*/, "", args[i])
		sub(/\).*/, "", args[i])
		sub(/.*[ *]/, "", args[i])
		own[args[i]] = "word"
		if (args[i] ~ /_|attr|buf|dst|src|(batcher|cq|mem|pool)p/)
			own[args[i]] = "clear"
	}
}

# ---- structures and enumerations ------------------------------------------------

# What a comment says, on one line.
function plain(text) {
	gsub(/^\/\*|\*\/$/, "", text)
	gsub(/\n[ \t]*\*/, " ", text)
	gsub(/[ \t\n]+/, " ", text)
	gsub(/^ | $/, "", text)
	return text
}

# Takes what stands between braces apart: into field[] and note[], how many they are.  A
# comment belongs to what stands on its line, else to what follows, or, if it ends with a
# colon, to all that follows: then field[] is empty.
function take_apart(text, ends, field, note,   n, end, before, behind) {
	while (text != "") {
		end = 1
		if (match(text, /^[ \t]+/)) {
			end = RLENGTH
		} else if (text ~ /^\n/) {
			behind = 0
		} else if (text ~ /^\/\*/) {
			end = index(text, "*/") + 1
			before = plain(substr(text, 1, end))
			if (behind || before ~ /:$/) {
				n += !behind
				note[n] = before
				before = ""
			}
		} else {
			match(text, ends)
			end = RSTART - 1
			field[++n] = substr(text, 1, end)
			note[n] = before
			before = ""
			behind = 1
			end += substr(text, RSTART, 1) ~ /[,;]/
		}
		text = substr(text, end + 1)
	}
	return n
}

function print_field(name, text) {
	gsub(/[ \t\n]+/, " ", text)
	if (name ~ /^enum/) {
		sub(/[ =].*/, "", text)
		print ".It Dv " text
	} else if (text ~ /\(|^[^,]*$/) {
		print ".It Fa \"" text "\""
	} else {			# several of one type
		sub(/,/, "\"\001", text)
		gsub(/[,\001]/, " ,", text)
		print ".It Fa \"" text
	}
}

# Prints the fields of a structure, or the names of an enumeration; all, or those in only[].
function fields(name, only, nr_only,   n, i, j, field, note, open, told, wanted) {
	n = take_apart(shape[name], name ~ /^enum/ ? "[,/\n]" : ";", field, note)
	for (i = 1; i <= n; i++) {
		wanted = !nr_only
		for (j in only)
			wanted = wanted || field[i] ~ "[ *]" only[j] "$"
		if (!wanted)
			continue
		if (open != (field[i] != ""))
			print open ? ".El\n.Pp" : ".Bl -tag -width Ds -compact"
		open = field[i] != ""
		if (open)
			print_field(name, field[i])
		told = 1
		say(note[i])
	}
	if (open)
		print ".El"
	if (!told)
		die(name " has no such field")
}

# ---- what stands for a line with @ ------------------------------------------------

function need(name) {
	if (!(name in about))
		die("no header has " name)
}

# @function, @type, @macro
function functions(word, n,   i) {
	printf ".Ss"
	for (i = 2; i <= n; i++) {
		if (shared[word[i]] != word[2])
			die(word[i] " has not the comment of " word[2])
		printf "%s %s %s", (i > 2 ? " ," : ""), (word[1] == "@type" ? "Vt" : "Fn"), word[i]
		parameters(word[i])
	}
	print ""
	tell(about[word[2]])
}

# @struct, @enum
function structure(name, word, n,   i, only, init) {
	print ".Ss " name
	tell(about[name])
	if (about[name] != "")
		print ".Pp"
	init = toupper(word[2]) "_INIT"
	if (n > 2)
		say("Its fields for programs are")
	else if (init in initialiser)
		say(init " initialises it. Its fields are")
	else
		say(name ~ /^enum/ ? "Its values are" : "Its fields are")
	for (i = 3; i <= n; i++)
		only[i] = word[i]
	fields(name, only, n - 2)
}

# @constants
function constants(word, n,   i) {
	print ".Bl -tag -width Ds -compact"
	for (i = 2; i <= n; i++) {
		print ".It Dv " word[i] " = " value[word[i]]
		tell(about[word[i]])
	}
	print ".El"
}

function expand(text,   n, word, rest) {
	n = split(text, word, " ")
	rest = substr(text, length(word[1]) + 2)
	split("", own)
	if (word[1] ~ /^@(function|type|macro)$/) {
		functions(word, n)
	} else if (word[1] ~ /^@(struct|enum)$/) {
		structure(substr(word[1], 2) " " word[2], word, n)
	} else if (word[1] == "@constants") {
		constants(word, n)
	} else if (word[1] == "@about") {
		need(rest)
		tell(about[rest])
	} else if (word[1] == "@error") {
		if (!(rest in strerror))
			die("rnl_strerror() has no text for " rest)
		say(toupper(substr(strerror[rest], 1, 1)) substr(strerror[rest], 2) ".")
	} else {
		die("what is " text)
	}
}

# ---- the page ---------------------------------------------------------------------

# @page: all before the DESCRIPTION.
function head(text,   i, page_name, date) {
	date = text
	sub(/:.*/, "", date)
	sub(/^[^:]*: */, "", text)
	page_name = FILENAME
	gsub(/.*\/|\.3\.in$/, "", page_name)
	print ".\\\" Made by docs/man/page.awk from the public headers and " page_name ".3.in."
	print ".Dd " date
	print ".Dt " toupper(page_name) " 3"
	print ".Os"
	print ".Sh NAME"
	if (names[1] != page_name)
		print ".Nm " page_name (nr_names ? " ," : "")
	for (i = 1; i <= nr_names; i++)
		print ".Nm " names[i] (i < nr_names ? " ," : "")
	print ".Nd " text
	print ".Sh LIBRARY"
	print "runnel"
	print ".Pq librunnel , Fl lrunnel"
	print ".Sh SYNOPSIS"
	print ".In " page_header
	for (i = 1; i <= nr_names; i++)
		prototype(names[i])
}

# Since when there is what the page is about.
function history(   i, j, n, v, version, list) {
	for (i = 1; i <= nr_names; i++) {
		v = since[names[i]]
		# Macros and typedefs need not say it.
		if (v == "" && shape[names[i]] ~ /^[^t].*;$/)
			die(names[i] " says no Since:")
		if (v == "")
			continue
		if (v in list) {
			list[v] = list[v] " ,\n"
		} else {
			version[++n] = v
		}
		list[v] = list[v] ".Fn " names[i]
	}
	if (n)
		print ".Sh HISTORY"
	for (j = 1; j <= n; j++) {
		print n == 1 ? "All of this" : list[version[j]]
		print "appeared in runnel " version[j] "."
	}
}

function example(i) {
	print ".Bd -literal -offset indent"
	for (i++; line_of[i] != "@end"; i++) {
		if (i > nr_lines)
			die("an example without its @end")
		verbatim(line_of[i])
	}
	print ".Ed"
	return i
}

# The page has a name that a header declares.
function belongs(name) {
	need(name)
	if (page_header == "")
		page_header = header[name]
	if (header[name] != page_header)
		die(name " is in " header[name] ", and the page is about " page_header)
}

{ line_of[++nr_lines] = $0 }
/^@(function|macro|type) / {
	for (i = 2; i <= NF; i++)
		here[names[++nr_names] = $i] = 1
}
/^@(function|macro|type|constants) / {
	for (i = 2; i <= NF; i++)
		belongs($i)
}
/^@(struct|enum) / { belongs(substr($1, 2) " " $2) }
END {
	if (failed)
		exit 1
	for (i = 1; i <= nr_lines; i++) {
		if (line_of[i] == "@example")
			i = example(i)
		else if (line_of[i] ~ /^@page /)
			head(substr(line_of[i], 7))
		else if (line_of[i] ~ /^@/)
			expand(line_of[i])
		else
			print line_of[i]
	}
	history()
}
