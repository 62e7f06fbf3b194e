/*
 * symbols.c -- the functions of a running process, and the groups that they belong to.
 *
 * Symbols come from the ELF files that the process has mapped: from .symtab, or in a stripped file from .dynsym.
 * Debian's postgres is stripped, but exports all functions that are not static, since extensions call them.  A
 * position-independent file lies where /proc/PID/maps says.
 *
 * A name ends at its first dot or at-sign: f.cold, f.part.0 and f.constprop.1 are parts of f.
 */
#include "symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_RULES	256
#define NOT_ASKED	(-2)		/* nobody wanted this symbol's group yet */

typedef struct Symbol
{
	uint64_t	start;
	uint64_t	end;
	int			group;
	int			order;			/* files in the order in which they are mapped */
	char	   *name;
	int			is_part;		/* of the function whose name it has */
} Symbol;

typedef struct Rule
{
	regex_t		names;
	int			group;
} Rule;

static Symbol * symbols;
static int	nsymbols,
			max_symbols;

static Rule rules[MAX_RULES];
static int	nrules;
static char *groups[MAX_GROUPS];
static int	ngroups;

void
die(const char *format,...)
{
	va_list		args;

	fprintf(stderr, "stepper: ");
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	exit(1);
}

/* ---------- groups ---------- */

static int
group_named(const char *name)
{
	for (int i = 0; i < ngroups; i++)
		if (strcmp(groups[i], name) == 0)
			return i;
	if (ngroups == MAX_GROUPS)
		die("more than %d groups", MAX_GROUPS);
	groups[ngroups] = strdup(name);
	return ngroups++;
}

static void
add_rule(const char *names, int group)
{
	char		anchored[1024];

	if (nrules == MAX_RULES)
		die("more than %d rules", MAX_RULES);
	if (snprintf(anchored, sizeof(anchored), "^(%s)$", names) >= (int) sizeof(anchored) ||
		regcomp(&rules[nrules].names, anchored, REG_EXTENDED | REG_NOSUB) != 0)
		die("not a regular expression: %s", names);
	rules[nrules++].group = group;
}

void
groups_read(const char *path)
{
	FILE	   *file = fopen(path, "r");
	char		line[1024];
	int			group = NO_GROUP;

	if (file == NULL)
		die("cannot read %s", path);
	while (fgets(line, sizeof(line), file))
	{
		char	   *text = line + strspn(line, "\t");

		text[		strcspn(text, "\n")] = '\0';

		if (text[0] == '\0' || text[0] == '#')
			continue;
		if (text == line)
			group = group_named(text);
		else if (group == NO_GROUP)
			die("%s: names before the first group", path);
		else
			add_rule(text, group);
	}
	fclose(file);
	group_named("the rest");
}

int
groups_count(void)
{
	return ngroups;
}

const char *
group_name(int group)
{
	return groups[group];
}

int
group_counts(int group)
{
	return groups[group][0] != '!';
}

static int
group_of(const char *name)
{
	for (int i = 0; i < nrules; i++)
		if (regexec(&rules[i].names, name, 0, NULL, 0) == 0)
			return rules[i].group;
	return NO_GROUP;
}

/* ---------- symbols ---------- */

static void
add_symbol(uint64_t start, uint64_t size, const char *name, int order)
{
	Symbol	   *added;

	if (nsymbols == max_symbols)
	{
		max_symbols = max_symbols ? 2 * max_symbols : 16384;
		symbols = realloc(symbols, max_symbols * sizeof(*symbols));
		if (symbols == NULL)
			die("out of memory");
	}
	added = &symbols[nsymbols++];
	added->start = start;
	added->end = start + (size ? size : 1);
	added->group = NOT_ASKED;
	added->order = order;
	added->is_part = strchr(name, '.') != NULL;
	added->name = strndup(name, strcspn(name, ".@"));
}

/* The symbol table of a file, or NULL if it has none. */
static const Elf64_Shdr *
symbol_table(const Elf64_Ehdr * elf)
{
	const		Elf64_Shdr *sections = (const Elf64_Shdr *) ((const char *) elf + elf->e_shoff);
	const		Elf64_Shdr *found = NULL;

	for (int i = 0; i < elf->e_shnum; i++)
		if (sections[i].sh_type == SHT_SYMTAB || (sections[i].sh_type == SHT_DYNSYM && found == NULL))
			found = &sections[i];
	return found;
}

static void
add_file(const char *path, uint64_t mapped_at, int order)
{
	int			fd = open(path, O_RDONLY);
	struct stat st;
	const char *bytes;
	const		Elf64_Ehdr *elf;
	const		Elf64_Shdr *table;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < (off_t) sizeof(Elf64_Ehdr))
	{
		if (fd >= 0)
			close(fd);
		return;
	}
	bytes = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	close(fd);
	if (bytes == MAP_FAILED)
		return;
	elf = (const Elf64_Ehdr *) bytes;
	if (memcmp(elf->e_ident, ELFMAG, SELFMAG) == 0 && elf->e_ident[EI_CLASS] == ELFCLASS64 &&
		(table = symbol_table(elf)) != NULL)
	{
		const		Elf64_Shdr *sections = (const Elf64_Shdr *) (bytes + elf->e_shoff);
		const char *names = bytes + sections[table->sh_link].sh_offset;
		const		Elf64_Sym *symbol = (const Elf64_Sym *) (bytes + table->sh_offset);
		uint64_t	base = elf->e_type == ET_DYN ? mapped_at : 0;

		for (uint64_t i = 0; i < table->sh_size / sizeof(*symbol); i++)
		{
			int			type = ELF64_ST_TYPE(symbol[i].st_info);

			if ((type == STT_FUNC || type == STT_GNU_IFUNC) && symbol[i].st_shndx != SHN_UNDEF)
				add_symbol(base + symbol[i].st_value, symbol[i].st_size, names + symbol[i].st_name, order);
		}
	}
	munmap((void *) bytes, st.st_size);
}

static int
by_start(const void *a, const void *b)
{
	const Symbol *x = a;
	const Symbol *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

/* A file of data, as the pool, has no ELF header. */
void
symbols_read(pid_t pid)
{
	char		path[64];
	char		line[1024];
	char		last[512] = "";
	int			order = 0;
	FILE	   *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	maps = fopen(path, "r");
	if (maps == NULL)
		die("no process %d, or not ours to look at", pid);
	while (fgets(line, sizeof(line), maps))
	{
		unsigned long start,
					offset;
		char		file[512];

		if (sscanf(line, "%lx-%*x %*s %lx %*s %*s %511s", &start, &offset, file) == 3 &&
			file[0] == '/' && offset == 0 && strcmp(file, last) != 0)
		{
			strcpy(last, file);
			add_file(file, start, order++);
		}
	}
	fclose(maps);
	if (nsymbols == 0)
		die("process %d has no symbols", pid);
	qsort(symbols, nsymbols, sizeof(*symbols), by_start);
}

uint64_t
symbol_address(const char *name)
{
	const Symbol *found = NULL;

	for (int i = 0; i < nsymbols; i++)
		if (!symbols[i].is_part && strcmp(symbols[i].name, name) == 0 &&
			(found == NULL || symbols[i].order < found->order))
			found = &symbols[i];
	return found ? found->start : 0;
}

int
symbol_at(uint64_t address, int *group)
{
	int			low = 0,
				high = nsymbols,
				found = -1;

	*group = NO_GROUP;
	while (low < high)			/* symbols before low start at the address or
								 * below */
	{
		int			middle = (low + high) / 2;

		if (symbols[middle].start <= address)
			low = middle + 1;
		else
			high = middle;
	}
	for (int i = low - 1; i >= 0 && symbols[i].start == symbols[low - 1].start; i--)
	{
		if (address >= symbols[i].end)
			continue;
		if (symbols[i].group == NOT_ASKED)
			symbols[i].group = group_of(symbols[i].name);
		found = low - 1;
		if (symbols[i].group != NO_GROUP)
			*group = symbols[i].group;
	}
	return found;
}

int
symbols_count(void)
{
	return nsymbols;
}

const char *
symbol_name(int symbol)
{
	return symbols[symbol].name;
}
