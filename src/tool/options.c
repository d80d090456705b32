/* SPDX-License-Identifier: MIT */
/* Values of options, and of the environment, that several commands have. */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "kernels.h"
#include "tool.h"

int tool_number(const char *option, const char *arg, unsigned min, unsigned max, unsigned *number)
{
	unsigned long value = 0;
	char *end = NULL;

	errno = 0;
	if (*arg >= '0' && *arg <= '9')
		value = strtoul(arg, &end, 10);
	if (!end || *end || errno || value < min || value > max)
		return tool_misused("'%s' is not good for --%s: give a number from %u to %u", arg,
				    option, min, max);
	*number = (unsigned)value;
	return 0;
}

int tool_device(const char *arg, struct rnl_device_info *info)
{
	struct tool_cuda cuda;
	int ret;

	*info = (struct rnl_device_info)RNL_DEVICE_INFO_INIT;
	ret = rnl_device_info(arg, info);
	if (ret == -EINVAL)
		return tool_misused("'%s' is not good for --device: give auto, cuda, cuda:N or host",
				    arg);
	if (ret == -ENODEV) {
		tool_cuda_look(&cuda);
		return tool_trouble("no GPU answers as '%s'%s%s%s: use --device=host", arg,
				    cuda.nr_devices ? "" : " (",
				    cuda.nr_devices ? "" : cuda.why_none, cuda.nr_devices ? "" : ")");
	}
	if (ret)
		return tool_trouble("device '%s': %s", arg, rnl_strerror(ret));
	if (info->cuda && !tool_has_cuda_kernels)
		return tool_trouble("this was built without kernels for CUDA: install nvcc, "
				    "./configure and make again, or use --device=host");
	return 0;
}

static uint32_t guarding;	/* as tool_guard() said */

int tool_guard(uint32_t *guard)
{
	const char *text = getenv("RUNNEL_GUARD");

	if (text && strcmp(text, "") && strcmp(text, "0") && strcmp(text, "1") && strcmp(text, "2"))
		return tool_trouble("RUNNEL_GUARD is '%s': set it to 1, to have job functions "
				    "watched, to 2, to have those fail that do wrong, or not at all",
				    text);
	guarding = !text ? RNL_GUARD_OFF : *text == '1' ? RNL_GUARD_REPORT :
		   *text == '2' ? RNL_GUARD_STRICT : RNL_GUARD_OFF;
	*guard = guarding;
	return 0;
}

void tool_log(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	if (level == RNL_LOG_ERROR || (level == RNL_LOG_WARNING && guarding))
		(void)tool_trouble("%s", msg);
}
