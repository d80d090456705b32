/* SPDX-License-Identifier: MIT */
/*
 * Finds a function's name.
 *
 * DESIGN
 *	The dynamic linker knows exported functions only, and a job's function is usually static.
 *	So this reads the symbol table of the object's file, unless the table was stripped.  In a
 *	malformed file it finds no name.
 */
#include "config.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/symbol.h"

struct file {
	const unsigned char *bytes;
	size_t size;
};

/* Returns a table of @nr entries of @each bytes, or NULL if the file does not have all of it. */
static const void *table(const struct file *f, uint64_t at, uint64_t nr, uint64_t each)
{
	if (at > f->size || at % 8 || (each && nr > (f->size - at) / each))
		return NULL;
	return f->bytes + at;
}

/* Returns the string at @at of a section, or NULL if the section does not have all of it. */
static const char *string(const struct file *f, const ElfW(Shdr) *strings, uint64_t at)
{
	const char *text;

	if (at >= strings->sh_size || strings->sh_offset > f->size ||
	    strings->sh_size > f->size - strings->sh_offset)
		return NULL;
	text = (const char *)f->bytes + strings->sh_offset + at;
	return memchr(text, 0, strings->sh_size - at) ? text : NULL;
}

/* Returns the name of the function at an address in the object, or NULL. */
static const char *in_table(const struct file *f, const ElfW(Shdr) *sections, unsigned nr,
			    const ElfW(Shdr) *symtab, uint64_t place)
{
	uint64_t n = symtab->sh_size / sizeof(ElfW(Sym));
	const ElfW(Sym) *symbols = table(f, symtab->sh_offset, n, sizeof(ElfW(Sym)));

	if (!symbols || symtab->sh_link >= nr)
		return NULL;
	for (uint64_t i = 0; i < n; i++) {
		if ((symbols[i].st_info & 0xf) == STT_FUNC && symbols[i].st_value == place)
			return string(f, &sections[symtab->sh_link], symbols[i].st_name);
	}
	return NULL;
}

static const char *in_file(const struct file *f, uint64_t place)
{
	const ElfW(Ehdr) *header = table(f, 0, 1, sizeof(*header));
	const ElfW(Shdr) *sections;

	if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) ||
	    header->e_shentsize != sizeof(*sections))
		return NULL;
	sections = table(f, header->e_shoff, header->e_shnum, sizeof(*sections));
	for (unsigned i = 0; sections && i < header->e_shnum; i++) {
		const char *name = sections[i].sh_type == SHT_SYMTAB ?
			in_table(f, sections, header->e_shnum, &sections[i], place) : NULL;

		if (name)
			return name;
	}
	return NULL;
}

/* Copies the name that an object's file has for an address.  Returns false if it has no name. */
static bool look_into(const char *path, uint64_t place, char *text, size_t bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct file f = { MAP_FAILED, 0 };
	const char *name = NULL;
	struct stat st;

	if (fd < 0)
		return false;
	if (!fstat(fd, &st) && st.st_size > 0) {
		f.size = (size_t)st.st_size;
		f.bytes = mmap(NULL, f.size, PROT_READ, MAP_PRIVATE, fd, 0);
	}
	close(fd);
	if (f.bytes == MAP_FAILED)
		return false;
	name = in_file(&f, place);
	if (name)
		snprintf(text, bytes, "%s", name);
	munmap((void *)(uintptr_t)f.bytes, f.size);
	return name;
}

void rnl__symbol(const void *fn, char *text, size_t bytes)
{
	struct link_map *map = NULL;
	const char *base;
	uint64_t place;
	Dl_info info;

	if (!dladdr1(fn, &info, (void **)&map, RTLD_DL_LINKMAP) || !map) {
		snprintf(text, bytes, "%p", fn);
		return;
	}
	if (info.dli_sname && info.dli_saddr == fn) {
		snprintf(text, bytes, "%s", info.dli_sname);
		return;
	}
	place = (uint64_t)(uintptr_t)fn - map->l_addr;
	/* The linker has no name for the program itself. */
	if (look_into(*map->l_name ? map->l_name : "/proc/self/exe", place, text, bytes))
		return;
	base = info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
	snprintf(text, bytes, "%s+0x%llx", base ? base + 1 : info.dli_fname ? info.dli_fname : "?",
		 (unsigned long long)place);
}
