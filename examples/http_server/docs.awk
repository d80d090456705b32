# SPDX-License-Identifier: MIT
# Makes the page of GET /docs from README.md, of the Markdown that is used there: headings,
# paragraphs, lists, indented code, bold text, code and links. Links to files, which the server does
# not have, become text, and pictures are left out.
function inline(text,	out, link) {
	gsub(/&/, "\\&amp;", text)
	gsub(/</, "\\&lt;", text)
	while (match(text, /\[[^]]*\]\([^)]*\)/)) {
		link = substr(text, RSTART + 1, RLENGTH - 2)
		out = out substr(text, 1, RSTART - 1)
		text = substr(text, RSTART + RLENGTH)
		sub(/\]\(.*/, "", link)
		out = out link
	}
	text = out text
	while (match(text, /`[^`]*`/))
		text = substr(text, 1, RSTART - 1) "<code>" substr(text, RSTART + 1, RLENGTH - 2) "</code>" \
		       substr(text, RSTART + RLENGTH)
	while (match(text, /\*\*[^*]*\*\*/))
		text = substr(text, 1, RSTART - 1) "<b>" substr(text, RSTART + 2, RLENGTH - 4) "</b>" \
		       substr(text, RSTART + RLENGTH)
	return text
}
# Ends a block, and begins one of that kind.
function block(kind) {
	if (text != "")
		print "<" tag ">" (tag == "pre" ? text : inline(text)) "</" tag ">"
	text = ""
	if (list && kind != "li") {
		print "</ul>"
		list = 0
	}
	if (!list && kind == "li") {
		print "<ul>"
		list = 1
	}
	tag = kind
}
BEGIN {
	print "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"
	print "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
	print "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">"
	print "<title>http_server: documentation</title>\n<style nonce=\"@nonce@\">"
	print ":root { --ground: #f6f7f9; --text: #1b2028; --link: #2563c9; --well: #e6e9ee; }"
	print "@media (prefers-color-scheme: dark) {"
	print "\t:root { --ground: #12151a; --text: #e8ebf0; --link: #76a9ff; --well: #262d37; }\n}"
	print "body { margin: 0 auto; max-width: 44rem; padding: 1rem; overflow-wrap: anywhere;"
	print "\tbackground: var(--ground); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }"
	print "h1 { font-size: 1.5rem; margin: 0.5rem 0; }"
	print "ul { padding-left: 1.25rem; }\nli { margin: 0.5rem 0; }"
	print "code, pre { font: 0.875em/1.4 ui-monospace, monospace; }"
	print "pre { background: var(--well); padding: 0.75rem; white-space: pre-wrap; }"
	print "a { display: inline-flex; align-items: center; min-height: 2.75rem; color: var(--link); }"
	print "</style>\n</head>\n<body>\n<nav><a href=\"/\">Words and edges</a></nav>\n<main>"
}
/^<!--/ || /^!\[/ { next }
/^$/ { block("p"); next }
/^# / { block("h1"); text = substr($0, 3); block("p"); next }
/^## / { block("h2"); text = substr($0, 4); block("p"); next }
/^- / { block("li"); text = substr($0, 3); next }
/^    / && tag != "li" {
	if (tag != "pre")
		block("pre")
	line = substr($0, 5)
	gsub(/&/, "\\&amp;", line)
	gsub(/</, "\\&lt;", line)
	text = text line "\n"
	next
}
{ sub(/^ +/, ""); text = text (text == "" ? "" : " ") $0 }
END { block("p"); print "</main>\n</body>\n</html>" }
