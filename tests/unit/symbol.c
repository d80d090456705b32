/* SPDX-License-Identifier: MIT */
/*
 * The name of a function: from the linker, from the file's own table, and from files that were
 * damaged after loading, which must be harmless.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "suite.h"
#include "sys/symbol.h"

#define LIBRARY "./librunnel.so"
#define HIDDEN "rnl__devices_open"	/* a function that the library does not export */

static char path[64], text[128];

/* A copy of the library: the file's bytes, and its addresses after loading. */
static struct {
	unsigned char *bytes;
	size_t size;
	void *handle;
	ElfW(Shdr) *sections, *symtab, *strings;
	ElfW(Sym) *symbol;		/* symbol of HIDDEN */
	const char *fn;			/* the address of HIDDEN */
	char place[64];			/* HIDDEN's text when its name is unknown */
} copy;

static void write_copy(size_t size)
{
	int fd;

	/* A new file, because the old one is mapped. */
	unlink(path);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0700);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, copy.bytes, size), (ssize_t)size);
	close(fd);
}

static void read_library(void)
{
	int fd = open(LIBRARY, O_RDONLY);
	struct stat st;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	copy.size = (size_t)st.st_size;
	copy.bytes = malloc(copy.size);
	ck_assert_ptr_nonnull(copy.bytes);
	ck_assert_int_eq(read(fd, copy.bytes, copy.size), st.st_size);
	close(fd);
}

static void find_symbol(void)
{
	const ElfW(Ehdr) *header = (const void *)copy.bytes;

	copy.sections = (void *)(copy.bytes + header->e_shoff);
	for (unsigned i = 0; i < header->e_shnum; i++) {
		ElfW(Shdr) *s = &copy.sections[i];

		if (s->sh_type != SHT_SYMTAB)
			continue;
		copy.symtab = s;
		copy.strings = &copy.sections[s->sh_link];
		copy.symbol = (void *)(copy.bytes + s->sh_offset);
		while (strcmp((char *)copy.bytes + copy.strings->sh_offset + copy.symbol->st_name,
			      HIDDEN))
			copy.symbol++;
	}
}

static void setup(void)
{
	struct link_map *map;

	snprintf(path, sizeof(path), "/tmp/unit_symbol.%d.so", (int)getpid());
	read_library();
	write_copy(copy.size);
	copy.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	ck_assert_msg(copy.handle != NULL, "%s", dlerror());
	ck_assert_int_eq(dlinfo(copy.handle, RTLD_DI_LINKMAP, &map), 0);
	find_symbol();
	if (!copy.symtab)
		return;
	copy.fn = (const char *)map->l_addr + copy.symbol->st_value;
	snprintf(copy.place, sizeof(copy.place), "%s+0x%llx", strrchr(path, '/') + 1,
		 (unsigned long long)copy.symbol->st_value);
}

static void teardown(void)
{
	unlink(path);
	dlclose(copy.handle);
	free(copy.bytes);
}

static const char *name_of(const void *fn)
{
	rnl__symbol(fn, text, sizeof(text));
	return text;
}

static int static_fn(void)
{
	return 1;
}

TEST(a_function_of_the_program_has_its_name, .setup = setup, .teardown = teardown)
{
	ck_assert_str_eq(name_of((const void *)(uintptr_t)static_fn), "static_fn");
	ck_assert_str_eq(name_of((const void *)(uintptr_t)suite_add), "suite_add");
	rnl__symbol((const void *)(uintptr_t)static_fn, text, 5);
	ck_assert_str_eq(text, "stat");
}

TEST(a_function_of_a_library_has_its_name_exported_or_not, .setup = setup, .teardown = teardown)
{
	ck_assert_str_eq(name_of(dlsym(copy.handle, "rnl_version")), "rnl_version");
	if (!copy.symtab)
		test_skip("the library was stripped");
	ck_assert_str_eq(name_of(copy.fn), HIDDEN);
}

TEST(an_address_inside_a_function_is_an_offset_in_its_object, .setup = setup, .teardown = teardown)
{
	const char *fn = dlsym(copy.handle, "rnl_version");
	Dl_info info;
	char place[64];

	ck_assert_int_ne(dladdr(fn, &info), 0);
	snprintf(place, sizeof(place), "%s+0x%zx", strrchr(path, '/') + 1,
		 (size_t)(fn + 1 - (const char *)info.dli_fbase));
	ck_assert_str_eq(name_of(fn + 1), place);
}

TEST(an_address_in_no_object_is_a_number, .setup = setup, .teardown = teardown)
{
	const char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char address[32];

	ck_assert(page != MAP_FAILED);
	snprintf(address, sizeof(address), "%p", (const void *)(page + 16));
	ck_assert_str_eq(name_of(page + 16), address);
	munmap((void *)(uintptr_t)page, 4096);
}

enum damage {
	GONE, EMPTY, SHORT, NO_MAGIC, OTHER_SECTIONS, SECTIONS_BEYOND, SECTIONS_ODD, SECTIONS_MANY,
	SYMBOLS_BEYOND, SYMBOLS_MANY, NO_FUNCTION, STRINGS_NONE, STRINGS_BEYOND, STRINGS_LONG,
	NAME_BEYOND, NAME_OPEN, NR_DAMAGES
};

/* Damages the copy.  Returns the size of the damaged file. */
static size_t damage(enum damage how)
{
	ElfW(Ehdr) *header = (void *)copy.bytes;

	switch (how) {
	case EMPTY:
		return 0;
	case SHORT:
		return 10;
	case NO_MAGIC:
		header->e_ident[0] = 0;
		break;
	case OTHER_SECTIONS:
		header->e_shentsize++;
		break;
	case SECTIONS_BEYOND:
		header->e_shoff = (copy.size + 8) & ~7ull;
		break;
	case SECTIONS_ODD:
		header->e_shoff++;
		break;
	case SECTIONS_MANY:
		header->e_shnum = UINT16_MAX;
		break;
	case SYMBOLS_BEYOND:
		copy.symtab->sh_offset = UINT64_MAX - 7;
		break;
	case SYMBOLS_MANY:
		copy.symtab->sh_size = UINT64_MAX;
		break;
	case NO_FUNCTION:
		copy.symbol->st_info = ELF64_ST_INFO(STB_LOCAL, STT_OBJECT);
		break;
	case STRINGS_NONE:
		copy.symtab->sh_link = header->e_shnum;
		break;
	case STRINGS_BEYOND:
		copy.strings->sh_offset = copy.size + 1;
		break;
	case STRINGS_LONG:
		copy.strings->sh_size = copy.size;
		break;
	case NAME_BEYOND:
		copy.symbol->st_name = (ElfW(Word))copy.strings->sh_size;
		break;
	case NAME_OPEN:
		copy.strings->sh_size = copy.symbol->st_name + 3;
		break;
	default:
		break;
	}
	return copy.size;
}

TEST(a_file_that_makes_no_sense_has_no_names,
     .loops = NR_DAMAGES, .setup = setup, .teardown = teardown)
{
	if (!copy.symtab)
		test_skip("a_file_that_makes_no_sense...: the library was stripped");
	ck_assert_str_eq(name_of(copy.fn), HIDDEN);
	write_copy(damage((enum damage)_i));
	if (_i == GONE)
		unlink(path);
	ck_assert_str_eq(name_of(copy.fn), copy.place);
}
