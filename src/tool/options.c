/* SPDX-License-Identifier: MIT */
/*
 * Reads the options of a command by argp, from the command's table.
 *
 * DESIGN
 * argp prints the help, getopt prints messages about unknown options and missing arguments, and
 * this file prints the rest.  argp must not exit: main() checks standard output at the end.
 */
#include "options.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>

#include <runnel/device.h>

#include "experiment.h"
#include "facts.h"
#include "kernels.h"
#include "tool.h"

#define KEY 256		/* argp's key of the first option; letters would be short options */

int tool_take_flag(const struct tool_option *option, const char *arg)
{
	(void)arg;
	*(bool *)option->to = true;
	return 0;
}

int tool_take_number(const struct tool_option *option, const char *arg)
{
	unsigned long value = 0;
	char *end = NULL;

	errno = 0;
	if (*arg >= '0' && *arg <= '9')
		value = strtoul(arg, &end, 10);
	if (!end || *end || errno || value < option->min || value > option->max)
		return tool_misused("'%s' is not good for --%s: give a number from %u to %u", arg,
				    option->name, option->min, option->max);
	*(unsigned *)option->to = (unsigned)value;
	return 0;
}

int tool_take_text(const struct tool_option *option, const char *arg)
{
	*(const char **)option->to = arg;
	return 0;
}

int tool_take_file(const struct tool_option *option, const char *arg)
{
	if (!*arg)
		return tool_misused("--%s needs the name of a file", option->name);
	return tool_take_text(option, arg);
}

/* ---- argp ---------------------------------------------------------------- */

struct options_reading {
	const struct tool_usage *usage;
	int status;		/* TOOL_GO_ON if only getopt may have printed a message */
};

static error_t read_option(int key, char *arg, struct argp_state *state)
{
	struct options_reading *reading = state->input;
	const unsigned i = (unsigned)key - KEY;
	int ret;

	if (key == ARGP_KEY_INIT)
		state->err_stream = NULL;	/* argp's hint names --usage, which is no option */
	if (i > reading->usage->nr_options)
		return ARGP_ERR_UNKNOWN;
	if (i == reading->usage->nr_options) {
		argp_state_help(state, stdout, ARGP_HELP_SHORT_USAGE | ARGP_HELP_DOC | ARGP_HELP_LONG);
		reading->status = TOOL_YES;
		return ECANCELED;
	}
	ret = reading->usage->options[i].take(&reading->usage->options[i], arg);
	if (!ret)
		return 0;
	reading->status = ret;
	return ECANCELED;
}

static int check_operands(const struct tool_usage *usage, unsigned nr, char **operands)
{
	if (!nr && usage->missing)
		return tool_misused("%s", usage->missing);
	if (nr > usage->nr_operands)
		return tool_misused("'%s' is unexpected: %s", operands[usage->nr_operands],
				    usage->too_many);
	return TOOL_GO_ON;
}

int tool_options(const struct tool_usage *usage, int argc, char **argv, int *first)
{
	struct argp_option options[sizeof(usage->options) / sizeof(usage->options[0]) + 2] = { 0 };
	const struct argp argp = { options, read_option, usage->args, usage->doc, NULL, NULL, NULL };
	struct options_reading reading = { usage, TOOL_GO_ON };
	unsigned i;
	int index;

	for (i = 0; i < usage->nr_options; i++)
		options[i] = (struct argp_option){
			.name = usage->options[i].name, .key = KEY + (int)i,
			.arg = usage->options[i].arg, .doc = usage->options[i].doc,
		};
	options[i] = (struct argp_option){
		.name = "help", .key = KEY + (int)i, .doc = "print this and exit", .group = 1,
	};
	if (argp_parse(&argp, argc, argv, ARGP_NO_HELP, &index, &reading))
		return reading.status == TOOL_GO_ON ? tool_misused_said() : reading.status;
	if (first)
		*first = index;
	return check_operands(usage, (unsigned)(argc - index), argv + index);
}

/* ---- devices ------------------------------------------------------------- */

static int find_device(const char *arg, struct rnl_device_info *info)
{
	struct tool_cuda cuda;
	int ret;

	*info = (struct rnl_device_info)RNL_DEVICE_INFO_INIT;
	ret = rnl_device_describe(NULL, arg, 0, info);
	if (ret == -EINVAL)
		return tool_misused("'%s' is not good for --device: give auto, cuda, cuda:N, cuda:N,N,..., "
				    "cuda:all, host or host:N",
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

int tool_begin(const char *device, struct rnl_device_info *info)
{
	int ret = tool_guard();

	if (ret)
		return ret;
	tool_must(rnl_setup(), "preparing the process");
	return find_device(device, info);
}
