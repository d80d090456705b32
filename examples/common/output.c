/* SPDX-License-Identifier: MIT */
/*
 * An output file that appears only when it is complete.
 *
 * DESIGN
 * The program writes FILE.part, which is renamed to FILE at the end.  So an older FILE stays until
 * the new one is complete.  A device, a pipe or a link is written directly, because a rename would
 * replace it.
 */
#include "config.h"

#include "common/output.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int output_begin(struct output *out, const char *file)
{
	struct stat st;
	int ret;

	*out = (struct output){ .file = file };
	if ((lstat(file, &st) || S_ISREG(st.st_mode)) && asprintf(&out->part, "%s.part", file) < 0)
		return -ENOMEM;
	out->to = fopen(out->part ? out->part : file, "we");
	if (out->to)
		return 0;
	ret = -errno;
	free(out->part);
	return ret;
}

int output_end(struct output *out, int ret)
{
	if (!ret && (fflush(out->to) || ferror(out->to)))
		ret = errno ? -errno : -EIO;
	if (fclose(out->to) && !ret)
		ret = -errno;
	if (out->part && !ret && rename(out->part, out->file))
		ret = -errno;
	if (out->part && ret)
		unlink(out->part);
	free(out->part);
	return ret;
}
