# SPDX-License-Identifier: MIT
# Makes librunnel0.symbols of the library's map: awk -f debian/symbols.awk src/runnel.map.  A
# symbol of the node RNL_X.Y is there since version X.Y.0.
BEGIN {
	print "# SPDX-License-Identifier: MIT"
	print "# Made of src/runnel.map by debian/symbols.awk."
	print "librunnel.so.0 librunnel0 #MINVER#"
	print "* Build-Depends-Package: librunnel-dev"
}
/^RNL_[0-9.]+ [{]$/ {
	node = $1
	since = substr(node, 5) ".0"
	print " " node "@" node " " since
}
/global:/ { on = 1; next }
/local:/ || /}/ { on = 0 }
on && gsub(/[ \t;]/, "") { print " " $0 "@" node " " since }
