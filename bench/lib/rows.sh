# shellcheck shell=bash
#
# rows.sh -- rows of 100 bytes as COPY reads them: a bigint key and a text of 91 characters (bash, awk).
#
# rows_from_to FIRST LAST   prints the rows with these keys.

rows_from_to() {
	awk -v first="$1" -v last="$2" 'BEGIN {
		srand(1)
		for (i = 0; i < 64; i++)
			for (j = 0; j < 91; j++)
				text[i] = text[i] sprintf("%c", 97 + int(rand() * 26))
		for (i = first; i <= last; i++)
			print i "\t" text[i % 64]
	}'
}
