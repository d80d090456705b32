/* SPDX-License-Identifier: MIT */
/*
 * Reads the imports of an ELF object, or of each member of an archive, by libelf.
 *
 * DESIGN
 * The imports of a relocatable object are the undefined symbols of its symbol table; those of
 * an executable or a shared object are in its dynamic symbol table.  Files are not trusted:
 * offsets and sizes are checked against the file's size before libelf uses them.
 */
#include "lint.h"
#include "tool.h"

#ifdef HAVE_LIBELF
#include <ar.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct reading {
	const char *path;
	const char *member;	/* NULL for the file itself */
	void (*take)(struct lint_object *object, void *arg);
	void *arg;
};

/* Prints why the object cannot be read.  Returns false. */
static bool trouble(const struct reading *r, const char *why)
{
	if (r->member)
		(void)tool_trouble("%s(%s): %s", r->path, r->member, why);
	else
		(void)tool_trouble("%s: %s", r->path, why);
	return false;
}

static void *or_die(void *mem)
{
	if (mem)
		return mem;
	(void)tool_trouble("out of memory");
	exit(TOOL_TROUBLE);
}

/* ---- objects ------------------------------------------------------------------ */

static void add_name(struct lint_names *n, const char *name)
{
	if (n->nr == n->room) {
		n->room = n->room ? 2 * n->room : 16;
		n->names = or_die(realloc(n->names, n->room * sizeof(*n->names)));
	}
	n->names[n->nr++] = or_die(strdup(name));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void sort_names(struct lint_names *n)
{
	size_t kept = 0;

	if (n->nr)
		qsort(n->names, n->nr, sizeof(*n->names), by_name);
	for (size_t i = 0; i < n->nr; i++) {
		if (kept && !strcmp(n->names[kept - 1], n->names[i]))
			free(n->names[i]);
		else
			n->names[kept++] = n->names[i];
	}
	n->nr = kept;
}

static struct lint_object *new_object(const struct reading *r)
{
	struct lint_object *object = or_die(calloc(1, sizeof(*object)));

	object->file = or_die(strdup(r->path));
	object->member = r->member ? or_die(strdup(r->member)) : NULL;
	return object;
}

void lint_object_free(struct lint_object *object)
{
	for (unsigned use = 0; use < LINT_USES; use++) {
		for (size_t i = 0; i < object->uses[use].nr; i++)
			free(object->uses[use].names[i]);
		free(object->uses[use].names);
	}
	free(object->file);
	free(object->member);
	free(object);
}

/* ---- symbols ------------------------------------------------------------------- */

/* Properties of an object, besides its imports. */
struct seen_symbols {
	bool table;		/* the object has the table with its imports */
	unsigned tables;	/* bit mask of the table types that were read */
	bool cuda;		/* the object contains CUDA code */
	bool runtime;		/* the object contains the CUDA runtime */
	bool library;		/* the object contains runnel */
	bool bytecode;		/* the object is compiler bytecode, without symbols */
};

/* Returns a string table.  NULL: its last byte is not 0, so its last name has no end. */
static const Elf_Data *names_of(Elf *elf, size_t section)
{
	Elf_Scn *scn = elf_getscn(elf, section);
	const Elf_Data *names = scn ? elf_getdata(scn, NULL) : NULL;

	return names && names->d_buf && names->d_size && !((char *)names->d_buf)[names->d_size - 1] ? names : NULL;
}

static bool read_table(const struct reading *r, Elf *elf, Elf_Scn *section, const GElf_Shdr *header,
		       bool imports, struct seen_symbols *seen, struct lint_object *object)
{
	Elf_Data *data = elf_getdata(section, NULL);
	const Elf_Data *names = names_of(elf, header->sh_link);
	size_t nr = header->sh_entsize ? header->sh_size / header->sh_entsize : 0;

	if (!data || !nr)
		return trouble(r, "its symbol table cannot be read: broken or truncated");
	if (!names)
		return trouble(r, "its symbols' names cannot be read: broken or truncated");
	for (size_t i = 1; i < nr; i++) {
		enum lint_use use;
		const char *name;
		GElf_Sym symbol;

		if (!gelf_getsym(data, (int)i, &symbol))
			return trouble(r, "its symbol table cannot be read: broken or truncated");
		if (symbol.st_name >= names->d_size)
			return trouble(r, "a symbol's name lies outside of the file: broken or truncated");
		name = (const char *)names->d_buf + symbol.st_name;
		if (!strcmp(name, "__gnu_lto_slim"))
			seen->bytecode = true;
		use = lint_use_of(name);
		if (use == LINT_OTHER)
			continue;
		if (symbol.st_shndx != SHN_UNDEF)
			seen->runtime = true;
		else if (imports)
			add_name(&object->uses[use], name);
	}
	return true;
}

static bool lies_inside(uint64_t offset, uint64_t bytes, size_t size)
{
	return offset <= size && bytes <= size - offset;
}

/* Reads each section; the imports are in tables of type @table. */
static bool read_sections(const struct reading *r, Elf *elf, Elf64_Word table, size_t size,
			  struct seen_symbols *seen, struct lint_object *object)
{
	size_t nr, names;

	if (elf_getshdrnum(elf, &nr) || elf_getshdrstrndx(elf, &names))
		return trouble(r, "its sections cannot be read: broken or truncated");
	for (size_t i = 1; i < nr; i++) {
		Elf_Scn *section = elf_getscn(elf, i);
		GElf_Shdr header;
		const char *name;

		if (!section || !gelf_getshdr(section, &header))
			return trouble(r, "its sections cannot be read: broken or truncated");
		if (header.sh_type != SHT_NOBITS &&
		    !lies_inside(header.sh_offset, header.sh_size, size))
			return trouble(r, "a section lies outside of the file: broken or truncated");
		name = elf_strptr(elf, names, header.sh_name);
		if (name && (!strcmp(name, ".nv_fatbin") || !strcmp(name, ".nvFatBinSegment")))
			seen->cuda = true;
		if (name && !strcmp(name, ".note.runnel"))
			seen->library = true;
		if (header.sh_type != SHT_SYMTAB && header.sh_type != SHT_DYNSYM)
			continue;
		if (seen->tables >> (header.sh_type == SHT_DYNSYM) & 1)
			return trouble(r, "it has two symbol tables of one type: broken");
		seen->tables |= 1u << (header.sh_type == SHT_DYNSYM);
		seen->table |= header.sh_type == table;
		if (header.sh_size <= header.sh_entsize)
			continue;	/* the table has only the null symbol */
		if (!read_table(r, elf, section, &header, header.sh_type == table, seen, object))
			return false;
	}
	return true;
}

/* Moves the names of the library's calls to their own list. */
static void separate_own(struct lint_object *object)
{
	for (unsigned use = 0; use < LINT_OWN; use++) {
		struct lint_names *n = &object->uses[use];
		size_t kept = 0;

		for (size_t i = 0; i < n->nr; i++) {
			if (lint_is_own(n->names[i])) {
				add_name(&object->uses[LINT_OWN], n->names[i]);
				free(n->names[i]);
			} else {
				n->names[kept++] = n->names[i];
			}
		}
		n->nr = kept;
	}
}

static bool has_imports(const struct lint_object *object)
{
	for (unsigned use = 0; use < LINT_USES; use++) {
		if (object->uses[use].nr)
			return true;
	}
	return false;
}

static bool elf_look_into(const struct reading *r, Elf *elf, const GElf_Ehdr *header, size_t size,
			  struct lint_object *object)
{
	const bool relocatable = header->e_type == ET_REL;
	struct seen_symbols seen = { 0 };

	if (header->e_type != ET_REL && header->e_type != ET_EXEC && header->e_type != ET_DYN)
		return trouble(r, header->e_type == ET_CORE ? "a core file: there are no imports in it" :
							   "no object, executable or shared object");
	if (header->e_shoff &&
	    !lies_inside(header->e_shoff, (uint64_t)header->e_shnum * header->e_shentsize, size))
		return trouble(r, "its sections lie outside of the file: broken or truncated");
	if (!header->e_shoff)
		return trouble(r, "it has no sections, so its symbols cannot be found");
	if (!read_sections(r, elf, relocatable ? SHT_SYMTAB : SHT_DYNSYM, size, &seen, object))
		return false;
	if (seen.library)
		separate_own(object);
	if (seen.bytecode && !has_imports(object))
		return trouble(r, "it holds a compiler's bytecode (-flto): compile it with "
				  "-ffat-lto-objects, or check the program that it is linked into");
	/* The static runtime defines all of its names, whether they are used or not. */
	if (!relocatable && !has_imports(object) && (seen.runtime || seen.cuda))
		return trouble(r, "the CUDA runtime is linked in statically, and which of its calls are "
				  "used cannot be seen: look at the objects that it was linked from");
	return true;
}

/* ---- files ----------------------------------------------------------------------- */

static bool read_elf(const struct reading *r, Elf *elf, size_t size)
{
	struct lint_object *object;
	GElf_Ehdr header;

	if (!gelf_getehdr(elf, &header))
		return trouble(r, "its header cannot be read: broken or truncated");
	object = new_object(r);
	if (!elf_look_into(r, elf, &header, size, object)) {
		lint_object_free(object);
		return false;
	}
	for (unsigned use = 0; use < LINT_USES; use++)
		sort_names(&object->uses[use]);
	r->take(object, r->arg);
	return true;
}

/* Returns true if the name belongs to a table of the archive, not to a member. */
static bool is_table(const char *name)
{
	return !strcmp(name, "/") || !strcmp(name, "//") || !strcmp(name, "/SYM64/");
}

/* Returns true if all members and tables lie inside the file; libelf would cut the last one. */
static bool is_whole(const char *raw, size_t size)
{
	size_t at = SARMAG;

	/* The padding byte after the last member may be missing. */
	while (at < size) {
		struct ar_hdr header;
		char digits[sizeof(header.ar_size) + 1] = "";
		unsigned long long bytes;

		if (!lies_inside(at, sizeof(header), size))
			return false;
		memcpy(&header, raw + at, sizeof(header));
		memcpy(digits, header.ar_size, sizeof(header.ar_size));
		bytes = strtoull(digits, NULL, 10);
		at += sizeof(header);
		if (memcmp(header.ar_fmag, ARFMAG, sizeof(header.ar_fmag)) ||
		    !lies_inside(at, bytes, size))
			return false;
		at += bytes + (bytes & 1);
	}
	return true;
}

static bool read_archive(const struct reading *r, Elf *archive, int fd, const char *raw, size_t size)
{
	bool good = true;
	Elf *elf;

	if (!is_whole(raw, size))
		good = trouble(r, "the archive ends amid a member, or one has no header: broken or truncated");
	while ((elf = elf_begin(fd, ELF_C_READ, archive)) != NULL) {
		const Elf_Arhdr *header = elf_getarhdr(elf);
		struct reading member = *r;
		bool more;

		if (!header) {
			good = trouble(r, "a member's header cannot be read: broken or truncated");
			elf_end(elf);
			break;
		}
		member.member = header->ar_name ? header->ar_name : "?";
		if (elf_kind(elf) == ELF_K_ELF)
			good = read_elf(&member, elf, (size_t)header->ar_size) && good;
		else if (!is_table(member.member) && header->ar_size)
			good = trouble(&member, "no ELF object") && good;
		more = elf_next(elf) != ELF_C_NULL;
		elf_end(elf);
		if (!more)
			break;
	}
	return good;
}

static bool read_mapped(const struct reading *r, int fd, char *raw, size_t size)
{
	static const char thin[] = "!<thin>\n";
	bool good;
	Elf *elf;

	if (size >= strlen(thin) && !memcmp(raw, thin, strlen(thin)))
		return trouble(r, "a thin archive: its members are separate files, check those");
	elf = elf_memory(raw, size);
	if (!elf)
		return trouble(r, elf_errmsg(-1));
	switch (elf_kind(elf)) {
	case ELF_K_ELF:
		good = read_elf(r, elf, size);
		break;
	case ELF_K_AR:
		good = read_archive(r, elf, fd, raw, size);
		break;
	default:
		good = trouble(r, "neither an ELF object nor an archive");
	}
	elf_end(elf);
	return good;
}

static bool read_open(const struct reading *r, int fd, size_t size)
{
	/* Private: libelf may convert data in place to the machine's byte order. */
	char *raw = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	bool good;

	if (raw == MAP_FAILED)
		return trouble(r, strerror(errno));
	good = read_mapped(r, fd, raw, size);
	munmap(raw, size);
	return good;
}

bool lint_read(const char *path, void (*take)(struct lint_object *object, void *arg), void *arg)
{
	const struct reading r = { .path = path, .take = take, .arg = arg };
	struct stat st;
	bool good;
	/* Opening a pipe must not block. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	if (fd < 0)
		return trouble(&r, strerror(errno));
	(void)elf_version(EV_CURRENT);
	if (fstat(fd, &st))
		good = trouble(&r, strerror(errno));
	else if (S_ISDIR(st.st_mode))
		good = trouble(&r, "a directory: name the objects in it");
	else if (!S_ISREG(st.st_mode))
		good = trouble(&r, "no regular file");
	else if (!st.st_size)
		good = trouble(&r, "empty");
	else
		good = read_open(&r, fd, (size_t)st.st_size);
	close(fd);
	return good;
}

#else
bool lint_read(const char *path, void (*take)(struct lint_object *object, void *arg), void *arg)
{
	(void)take;
	(void)arg;
	(void)tool_trouble("%s: this runnel was built without libelf, and reads no objects: "
			   "`make deps all` in its sources builds the whole tool", path);
	return false;
}

void lint_object_free(struct lint_object *object)
{
	(void)object;	/* never called */
}
#endif
