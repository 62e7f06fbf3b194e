/*
 * numa.c -- the machine's NUMA nodes: which there are, on which a process runs, how far they are from each other.
 *
 * The kernel tells it in /sys/devices/system/node.  Nodes without processors have memory only: no process runs there,
 * and a file of the pool that is there belongs to the nearest of the others.  System calls are made directly, so no
 * library is needed.
 *
 * zen.numa_simulate makes so many sets of the processors count as nodes, for tests of everything but placement.
 *
 * Each process counts in a block of its own, found by its PGPROC number, and a reset notes the sums, as in stats.c.
 */
#include "base/numa.h"

#include <limits.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "access/twophase.h"
#include "base/delay.h"
#include "base/guc.h"
#include "base/locks.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/proc.h"
#include "storage/shmem.h"

#define MAX_NUMBER		1023	/* the kernel's largest */
#define MAX_CPUS		8192
#define FAR				1000
#define HERE			10		/* the kernel's distance of a node to itself */
#define REMOTE			20		/* ... and of any other, if simulated */

#define NCOUNTS			((int) (sizeof(ZenNumaCounts) / sizeof(uint64)))

typedef struct Topology
{
	int32		number[ZEN_MAX_NODES];
	uint16		distance[ZEN_MAX_NODES][MAX_NUMBER + 1];	/* by place and number */
	int8		place_of_cpu[MAX_CPUS];
} Topology;

/* A process's counts, by place of the memory.  It alone writes them. */
typedef struct NodeBlock
{
	ZenNumaCounts counts[ZEN_MAX_NODES];
	int			place;			/* -1: has not written */
	int			pid;			/* of the process that has counted last */
} NodeBlock;

int			zen_numa_nodes = 1;

static Topology topology;
static NodeBlock *node_blocks;
static ZenNumaCounts *before_reset; /* [ZEN_MAX_NODES], under ZEN_LOCK_STATS */
static NodeBlock nobody;		/* counts of a process without PGPROC */

/* ---------- what the kernel tells ---------- */

/* The first line of a file; false if there is none. */
static bool
read_line(const char *path, char *line, int size)
{
	FILE	   *file = fopen(path, "r");
	bool		found = file != NULL && fgets(line, size, file) != NULL;

	if (file != NULL)
		fclose(file);
	return found;
}

/* Call visit for each number of a list like "0-3,8"; its result is how many there are. */
static int
walk_list(const char *list, void (*visit) (int number, void *arg), void *arg)
{
	int			n = 0;
	char	   *end;

	while (*list >= '0' && *list <= '9')
	{
		long		from = strtol(list, &end, 10);
		long		to = *end == '-' ? strtol(end + 1, &end, 10) : from;

		for (; from <= to && from >= 0 && from < MAX_CPUS; from++, n++)
			visit((int) from, arg);
		list = *end == ',' ? end + 1 : end;
	}
	return n;
}

static void
numa_note_cpu(int cpu, void *arg)
{
	topology.place_of_cpu[cpu] = (int8) *(int *) arg;
}

/* Distances are listed in the order of the nodes that are online. */
typedef struct DistanceList
{
	uint16	   *distance;
	char	   *text;
} DistanceList;

static void
numa_note_distance(int number, void *arg)
{
	DistanceList *list = arg;

	if (number <= MAX_NUMBER)
		list->distance[number] = (uint16) strtol(list->text, &list->text, 10);
}

static void
numa_note_node(int number, void *arg)
{
	const char *online = arg;
	char		path[MAXPGPATH],
				line[MAXPGPATH];
	int			place = zen_numa_nodes;

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist", number);
	if (number > MAX_NUMBER || place == ZEN_MAX_NODES || !read_line(path, line, sizeof(line)) ||
		walk_list(line, numa_note_cpu, &place) == 0)
		return;
	zen_numa_nodes++;
	topology.number[place] = number;
	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/distance", number);
	if (read_line(path, line, sizeof(line)))
	{
		DistanceList list = {.distance = topology.distance[place],.text = line};

		walk_list(online, numa_note_distance, &list);
	}
	topology.distance[place][number] = HERE;
}

static void
simulate(void)
{
	long		ncpus = Max(1, sysconf(_SC_NPROCESSORS_CONF));

	zen_numa_nodes = zen_numa_simulate;
	for (int i = 0; i < zen_numa_nodes; i++)
	{
		topology.number[i] = i;
		for (int k = 0; k < zen_numa_nodes; k++)
			topology.distance[i][k] = i == k ? HERE : REMOTE;
	}
	for (long cpu = 0; cpu < Min(ncpus, MAX_CPUS); cpu++)
		topology.place_of_cpu[cpu] = (int8) (cpu * zen_numa_nodes / ncpus);
}

void
zen_numa_detect(void)
{
	char		online[MAXPGPATH];

	memset(&topology, 0, sizeof(topology));
	for (int i = 0; i < ZEN_MAX_NODES; i++)
		for (int k = 0; k <= MAX_NUMBER; k++)
			topology.distance[i][k] = FAR;
	zen_numa_nodes = 0;
	if (zen_numa_simulate > 0)
		simulate();
	else if (read_line("/sys/devices/system/node/online", online, sizeof(online)))
		walk_list(online, numa_note_node, online);
	if (zen_numa_mode == ZEN_NUMA_OFF || zen_numa_nodes == 0)
		zen_numa_nodes = 1;
}

/* ---------- where things are ---------- */

int
zen_numa_here(void)
{
	int			cpu;

	if (zen_numa_nodes == 1)
		return 0;
	cpu = sched_getcpu();
	return cpu >= 0 && cpu < MAX_CPUS ? topology.place_of_cpu[cpu] : 0;
}

int32
zen_numa_number(int place)
{
	return topology.number[place];
}

int
zen_numa_distance(int place, int32 number)
{
	return number >= 0 && number <= MAX_NUMBER ? topology.distance[place][number] : FAR;
}

/* The nearest place to a node, which may have no processors. */
int
zen_numa_place(int32 number)
{
	int			best = -1;

	for (int i = 0; i < zen_numa_nodes; i++)
		if (zen_numa_distance(i, number) < (best < 0 ? FAR : zen_numa_distance(best, number)))
			best = i;
	return best;
}

/*
 * Among nodes at the same distance the one at the next place counts as nearer, so that not all processes choose the
 * same.
 */
static int
far_from(int place, int other)
{
	return zen_numa_distance(place, topology.number[other]) * ZEN_MAX_NODES +
		(other - place + zen_numa_nodes) % zen_numa_nodes;
}

int
zen_numa_nearest(int place, int i)
{
	for (int other = 0; other < zen_numa_nodes; other++)
	{
		int			nearer = 0;

		for (int k = 0; k < zen_numa_nodes; k++)
			nearer += far_from(place, k) < far_from(place, other);
		if (nearer == i)
			return other;
	}
	pg_unreachable();
}

int32
zen_numa_node_of_file(int fd)
{
	struct stat st;
	char		path[MAXPGPATH],
				device[PATH_MAX],	/* as realpath() wants it */
				line[32];

	if (fstat(fd, &st) != 0)
		return -1;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u", major(st.st_dev), minor(st.st_dev));
	if (realpath(path, device) == NULL)
		return -1;
	/* a partition's disk, that disk's controller: the first that knows */
	while (strncmp(device, "/sys/devices/", 13) == 0)
	{
		char	   *slash = strrchr(device, '/');

		snprintf(path, sizeof(path), "%.900s/numa_node", device);
		if (read_line(path, line, sizeof(line)) && atoi(line) >= 0)
			return atoi(line);
		*slash = '\0';
	}
	return -1;
}

/* ---------- wishes ---------- */

typedef struct NodeMask
{
	unsigned long bits[(MAX_NUMBER + 1) / 64];
} NodeMask;

static bool
can_place(void)
{
	return zen_numa_nodes > 1 && zen_numa_simulate == 0;
}

static NodeMask
mask_of(int32 number)
{
	NodeMask	mask = {{0}};

	mask.bits[number / 64] |= 1UL << (number % 64);
	return mask;
}

/* The administrator may have chosen a policy (numactl): it comes back afterwards. */
void
zen_numa_prefer(int32 number)
{
	static bool chosen = false;
	static int	mode;
	static NodeMask former;
	NodeMask	mask = mask_of(Max(number, 0));
	long		rc = 0;

	if (!can_place() || (number < 0 && !chosen))
		return;
	if (number >= 0)
	{
		rc = syscall(SYS_get_mempolicy, &mode, &former, MAX_NUMBER + 1UL, NULL, 0UL);
		if (rc == 0)
			rc = syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, MAX_NUMBER + 1UL);
		chosen = rc == 0;
	}
	else
	{
		rc = syscall(SYS_set_mempolicy, mode, &former, MAX_NUMBER + 1UL);
		chosen = false;
	}
	if (rc != 0)
		ereport(LOG,
				(errmsg("could not choose the NUMA node of the zen pool's memory: %m")));
}

void
zen_numa_bind(char *base, Size size, int32 number)
{
	NodeMask	mask = mask_of(Max(number, 0));

	if (can_place() && number >= 0 &&
		syscall(SYS_mbind, base, size, MPOL_PREFERRED, &mask, MAX_NUMBER + 1UL, 0) != 0)
		ereport(LOG,
				(errmsg("could not bind the zen pool's memory to NUMA node %d: %m", number)));
}

void
zen_numa_divide(char *base, Size size, Size stripe)
{
	int			place = 0;

	for (Size at = 0; can_place() && at < size; at += stripe, place = (place + 1) % zen_numa_nodes)
		zen_numa_bind(base + at, Min(stripe, size - at), topology.number[place]);
}

/* ---------- counts ---------- */

static Size
numa_shmem_size(void)
{
	return zen_numa_nodes > 1 ? mul_size(zen_nprocs(), sizeof(NodeBlock)) + sizeof(ZenNumaCounts) * ZEN_MAX_NODES : 0;
}

static void
numa_shmem_init(void)
{
	bool		found;

	if (zen_numa_nodes == 1)
		return;
	node_blocks = ShmemInitStruct("zen NUMA nodes", numa_shmem_size(), &found);
	before_reset = (ZenNumaCounts *) (node_blocks + zen_nprocs());
	if (found)
		return;
	memset(node_blocks, 0, numa_shmem_size());
	for (int i = 0; i < zen_nprocs(); i++)
		node_blocks[i].place = -1;
}

const ZenShmem zen_numa_shmem = {.size = numa_shmem_size,.init = numa_shmem_init};

static NodeBlock *
my_node_block(void)
{
	NodeBlock  *block = MyProc != NULL && node_blocks != NULL ? &node_blocks[GetNumberFromPGProc(MyProc)] : &nobody;

	block->pid = MyProcPid;
	return block;
}

static void
delay_remote(uint64 lines, int ns)
{
	if (unlikely(ns > 0))
		zen_delay(lines * ns);
}

void
zen_numa_count_row(int from, int to, uint64 lines)
{
	NodeBlock  *block = my_node_block();

	block->place = from;
	if (to < 0)
		return;
	if (from == to)
	{
		block->counts[to].rows_local++;
		block->counts[to].lines_local += lines;
	}
	else
	{
		block->counts[to].rows_remote++;
		block->counts[to].lines_remote += lines;
		delay_remote(lines, zen_remote_write_delay_ns < 0 ? zen_remote_delay_ns : zen_remote_write_delay_ns);
	}
}

void
zen_numa_count_page(int to)
{
	if (to >= 0)
		my_node_block()->counts[to].pages_remote++;
}

void
zen_numa_count_read(int from, uint64 lines)
{
	ZenNumaCounts *counts;

	if (from < 0)
		return;
	counts = &my_node_block()->counts[from];
	if (from == zen_numa_here())
	{
		counts->rows_read_local++;
		counts->lines_read_local += lines;
	}
	else
	{
		counts->rows_read_remote++;
		counts->lines_read_remote += lines;
		delay_remote(lines, zen_remote_delay_ns);
	}
}

int
zen_numa_sessions(int place)
{
	int			n = 0;

	for (int i = 0; node_blocks != NULL && i < zen_nprocs(); i++)
	{
		volatile NodeBlock *block = &node_blocks[i];

		/* the process may have ended, and its PGPROC may be another's */
		n += block->place == place && block->pid != 0 && GetPGProcByNumber(i)->pid == block->pid;
	}
	return n;
}

static void
numa_sum_blocks(int place, ZenNumaCounts *sum)
{
	memset(sum, 0, sizeof(*sum));
	for (int i = 0; i < zen_nprocs(); i++)
	{
		volatile uint64 *counts = (volatile uint64 *) &node_blocks[i].counts[place];

		for (int c = 0; c < NCOUNTS; c++)
			((uint64 *) sum)[c] += counts[c];
	}
}

void
zen_numa_sum(int place, ZenNumaCounts *sum, int *sessions)
{
	uint64	   *counts = (uint64 *) sum;
	const uint64 *before = (const uint64 *) &before_reset[place];

	Assert(node_blocks != NULL && place < zen_numa_nodes);
	LWLockAcquire(zen_lock(ZEN_LOCK_STATS), LW_SHARED);
	numa_sum_blocks(place, sum);
	for (int i = 0; i < NCOUNTS; i++)
		counts[i] -= before[i];
	LWLockRelease(zen_lock(ZEN_LOCK_STATS));
	*sessions = zen_numa_sessions(place);
}

void
zen_numa_reset(void)
{
	if (node_blocks == NULL)
		return;
	LWLockAcquire(zen_lock(ZEN_LOCK_STATS), LW_EXCLUSIVE);
	for (int place = 0; place < zen_numa_nodes; place++)
		numa_sum_blocks(place, &before_reset[place]);
	LWLockRelease(zen_lock(ZEN_LOCK_STATS));
}

/* ---------- where this process runs ---------- */

typedef union CpuSet
{
	cpu_set_t	libc;
	unsigned long bits[MAX_CPUS / 64];
} CpuSet;

int
zen_numa_processors(int place)
{
	long		ncpus = Min(sysconf(_SC_NPROCESSORS_CONF), MAX_CPUS);
	int			n = 0;

	for (long cpu = 0; cpu < ncpus; cpu++)
		n += topology.place_of_cpu[cpu] == place;
	return n;
}

bool
zen_numa_run_on(int place)
{
	static bool asked = false;
	static CpuSet allowed;
	CpuSet		set = {{{0}}};
	NodeBlock  *block = my_node_block();

	Assert(place >= 0 && place < zen_numa_nodes);
	if (!asked && sched_getaffinity(0, sizeof(allowed), &allowed.libc) != 0)
		return false;
	asked = true;
	for (int cpu = 0; cpu < MAX_CPUS; cpu++)
		if (topology.place_of_cpu[cpu] == place)
			set.bits[cpu / 64] |= allowed.bits[cpu / 64] & (1UL << (cpu % 64));
	if (sched_setaffinity(0, sizeof(set), &set.libc) != 0)
		return false;
	block->place = place;
	block->counts[place].moves++;
	return true;
}

/* ---------- load ---------- */

typedef struct Ticks
{
	uint64		busy;
	uint64		all;
} Ticks;

/* Add up what /proc/stat says of the processors of a node. */
static Ticks
read_ticks(int place)
{
	Ticks		sum = {0};
	FILE	   *file = fopen("/proc/stat", "r");
	char		line[512];

	while (file != NULL && fgets(line, sizeof(line), file) != NULL)
	{
		unsigned long long t[8];
		int			cpu;

		if (sscanf(line, "cpu%d %llu %llu %llu %llu %llu %llu %llu %llu", &cpu,
				   &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7]) != 9 ||
			cpu < 0 || cpu >= MAX_CPUS || topology.place_of_cpu[cpu] != place)
			continue;
		for (int i = 0; i < 8; i++)
		{
			sum.all += t[i];
			/* idle, and idle with input or output under way */
			sum.busy += i == 3 || i == 4 ? 0 : t[i];
		}
	}
	if (file != NULL)
		fclose(file);
	return sum;
}

/* The load that zen.numa_simulate_load gives for a place; -1: none. */
static double
simulated_load(int place)
{
	const char *list = zen_numa_simulate > 0 ? zen_numa_simulate_load : "";

	for (; place > 0 && *list != '\0'; list++)
		place -= *list == ',';
	return *list >= '0' && *list <= '9' ? atof(list) / 100 : -1;
}

double
zen_numa_load(int place)
{
	static Ticks last[ZEN_MAX_NODES];
	double		simulated = simulated_load(place);
	Ticks		before = last[place];

	if (simulated >= 0)
		return simulated;
	last[place] = read_ticks(place);
	return last[place].all == before.all ? -1 :
		(double) (last[place].busy - before.busy) / (last[place].all - before.all);
}
