# SPDX-License-Identifier: MIT
# Reads the public headers: what is declared there, and the comment before it.
#
# DESIGN
# about[NAME] is a comment's text, shape[NAME] the prototype, or what stands between the
# braces; NAME is that of a function, a type of one or a macro, "struct NAME", "enum NAME",
# or that of a section, or of a header.  Declarations that follow each other without a comment
# between them share one: shared[NAME] is the first of them.  since[NAME] is a version,
# header[NAME] the header, strerror[CODE] a text of rnl_strerror(), value[NAME] what a constant is.

function die(why) {
	print FILENAME ": " why >"/dev/stderr"
	failed = 1
	exit 1
}

# keep NAME SHAPE: the comment before is about it; or the one before that, if there is none.
function keep(name, what) {
	if (about[name] != "") {	# a macro that C++ has another definition of
		comment = ""
		return
	}
	if (comment != "") {
		owner = name
		version = ""
		if (match(comment, /\nSince: [0-9.]+/))
			version = substr(comment, RSTART + 8, RLENGTH - 8)
	}
	about[name] = comment
	shared[name] = owner
	since[name] = version
	shape[name] = what
	header[name] = this_header
	comment = ""
}

# The name that a prototype or a typedef declares.
function declared(text) {
	sub(/\(.*/, "", text)
	sub(/.*[ *]/, "", text)
	return text
}

FILENAME ~ /\.c$/ {
	if (match($0, /case -?E[A-Z0-9]+:.*"/)) {
		split($0, part, "\"")
		sub(/.*case -/, "")
		sub(/:.*/, "")
		strerror[$0] = part[2]
	}
	next
}

FILENAME ~ /\.h$/ && FNR == 1 {
	section = ""
	this_header = FILENAME
	sub(/.*include\//, "", this_header)
}
FILENAME ~ /\.h$/ && !in_comment && /^\/\* ---- / {
	section = $0
	gsub(/^\/\* -+ | -+ \*\/$/, "", section)
	next
}
FILENAME ~ /\.h$/ && !in_comment && !in_code && /^\/\*/ {
	comment = ""
	if ($0 ~ /\*\/$/) {
		gsub(/^\/\* *| *\*\/$/, "")
		comment = $0 "\n"
	} else {
		in_comment = 1
	}
	next
}
FILENAME ~ /\.h$/ && in_comment {
	if ($0 ~ /^ \*\/$/) {
		in_comment = 0
		next
	}
	sub(/^ \* ?/, "")
	comment = comment $0 "\n"
	next
}
FILENAME ~ /\.h$/ && !in_code && /^$/ {
	if (comment != "" && section != "")
		about[section] = comment
	comment = ""
	next
}
FILENAME ~ /\.h$/ && /^#ifndef RUNNEL_/ {
	about[this_header] = comment
	comment = ""
}
FILENAME ~ /\.h$/ && !in_code && /^(struct|enum) [a-z_]+;$/ {
	sub(/;$/, "")
	keep($0, "")
	next
}
# A function that the header has in full.
FILENAME ~ /\.h$/ && !in_code && comment != "" && /^static inline .*\)$/ {
	sub(/^static inline /, "")
	keep(declared($0), $0 ";")
	next
}
FILENAME ~ /\.h$/ && !in_code &&
/^(RNL_API|typedef) |^(struct|enum) [a-z_]+ [{]|^#define [A-Za-z_]+\(/ {
	in_code = /^(struct|enum)/ ? "^[}];" : /^#/ ? "[^\\\\]$" : ";$"
	code = ""
}
FILENAME ~ /\.h$/ && in_code {
	code = code $0 "\n"
	if ($0 !~ in_code)
		next
	if (in_code == "^[}];") {
		split(code, part, " ")
		sub(/^[^{]*[{]/, "", code)
		sub(/\n[}];.*$/, "\n", code)
		keep(part[1] " " part[2], code)
	} else if (code ~ /^#/) {
		sub(/^#define /, "", code)
		sub(/\).*/, ")", code)
		keep(declared(code), code)
	} else {
		sub(/^RNL_API /, "", code)
		gsub(/[\n\t ]+/, " ", code)
		sub(/ $/, "", code)
		keep(declared(code), code)
	}
	in_code = ""
	next
}
FILENAME ~ /\.h$/ && /^#define RNL_[A-Z_]+_INIT/ { initialiser[$2] = 1 }
FILENAME ~ /\.h$/ && /^#define RNL_[A-Z_]+[ \t].*\/\* .* \*\/$/ {
	code = $0
	gsub(/^.*\/\* | \*\/$/, "", code)
	about[$2] = comment == "" ? code "\n" : comment
	comment = ""
	header[$2] = this_header
	value[$2] = $3
	gsub(/[()]/, "", value[$2])
}
FILENAME ~ /\.h$/ { next }
