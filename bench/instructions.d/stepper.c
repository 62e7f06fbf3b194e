/*
 * stepper.c -- counts the user instructions that a backend executes for each transaction, by executing one at a time.
 *
 *   stepper PID WARMUP SAMPLES TRANSACTIONS GROUPS [FUNCTIONS]
 *
 * Waits until the backend PID has ended WARMUP transactions at full speed.  Then steps through SAMPLES times
 * TRANSACTIONS of them, and prints a line of names and a line of numbers for each sample, with tabs: instructions,
 * system calls, transactions in which a signal came, and instructions by group (file GROUPS).  All are of TRANSACTIONS
 * together.  The file FUNCTIONS gets a line for each function: its own instructions in all samples, and its name.
 *
 * Counting.  After each instruction the process stops.  What the kernel does is no instruction.  A string instruction
 * with a repeat prefix stops after each round, and counts once, as a processor's own counter has it: the rounds of a
 * copy depend on the C library's choice for this processor.
 *
 * Border.  A transaction ends where the backend, after ProcArrayEndTransaction(), begins to read the next message.
 * That is the client's next statement.
 *
 * Groups.  The innermost function that belongs to a group decides.  So calls and returns are followed: a frame is the
 * stack pointer behind the call and the caller's group.  A function without a group or symbol has the group of its
 * caller.
 *
 * Time.  The process runs some thousand times slower than it should.  PostgreSQL's statistics, which go to shared
 * memory once a second, would count in each transaction: their group is not part of the sum (its name begins with "!").
 * The client seems to answer at once, so a backend hardly ever finds that there is nothing to read.
 */
#include "symbols.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_DEPTH	4096
#define NPLACES		(1 << 20)	/* a hash table of addresses: a power of 2 */
#define BREAKPOINT	0xcc

typedef enum Kind
{
	KIND_OTHER,
	KIND_CALL,
	KIND_RETURN,
	KIND_SYSCALL,
	KIND_REPEAT
} Kind;

/* An instruction that was executed before. */
typedef struct Place
{
	uint64_t	address;		/* 0: free */
	int symbol;
	int			group;
	Kind		kind;
} Place;

typedef struct Frame
{
	uint64_t	stack;
	int			group;
} Frame;

typedef struct Sample
{
	uint64_t	syscalls;
	uint64_t	signals;
	uint64_t	instructions[MAX_GROUPS];
} Sample;

static pid_t pid;
static int	memory;				/* of the process */
static uint64_t end_address;	/* where a transaction ends */
static uint64_t read_address;	/* where a message is read */
static Place places[NPLACES];
static int	nplaces;
static uint64_t *by_symbol;		/* instructions, of all samples */
static uint64_t without_symbol;
static volatile sig_atomic_t asked_to_stop;

static void
stop_soon(int signal_number)
{
	asked_to_stop = signal_number;
}

/* ---------- the process ---------- */

/* Without this the process would go on stepping, and be killed by it. */
static void
detach(void)
{
	ptrace(PTRACE_DETACH, pid, 0, 0);
}

/*
 * Waits for the process to stop.  Returns the signal that it has been sent, or 0 if it stopped for us.
 */
static int
await_stop(void)
{
	int			status;

	while (waitpid(pid, &status, __WALL) < 0)
		if (errno != EINTR)
			die("lost process %d: %s", pid, strerror(errno));
	if (!WIFSTOPPED(status))
		die("process %d has ended", pid);
	return WSTOPSIG(status) == SIGTRAP || status >> 16 != 0 ? 0 : WSTOPSIG(status);
}

static void
registers(struct user_regs_struct *regs)
{
	if (ptrace(PTRACE_GETREGS, pid, 0, regs) < 0)
		die("cannot read the registers of process %d: %s", pid, strerror(errno));
}

static void
attach(void)
{
	char		path[64];

	if (ptrace(PTRACE_SEIZE, pid, 0, 0) < 0)
	{
		if (errno == EPERM || errno == EACCES)
			die("ptrace of process %d is refused: %s", pid, strerror(errno));
		die("cannot trace process %d: %s", pid, strerror(errno));
	}
	atexit(detach);
	ptrace(PTRACE_INTERRUPT, pid, 0, 0);
	await_stop();
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	memory = open(path, O_RDWR);
	if (memory < 0)
		die("cannot open %s: %s", path, strerror(errno));
}

/*
 * Each step is two switches between the process and us, which are cheapest on one processor.
 */
static void
share_processor(void)
{
	cpu_set_t	one;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (sched_setaffinity(pid, sizeof(one), &one) == 0)
		sched_setaffinity(0, sizeof(one), &one);
}

static void
put_byte(uint64_t address, uint8_t byte)
{
	if (pwrite(memory, &byte, 1, address) != 1)
		die("cannot set a breakpoint: %s", strerror(errno));
}

/* The process stops at an address, before it executes what is there; the n-th time we return. */
static void
run_to(uint64_t address, int n)
{
	struct user_regs_struct regs;
	uint8_t		saved;
	int			sent = 0;

	if (pread(memory, &saved, 1, address) != 1)
		die("cannot read the process's memory: %s", strerror(errno));
	while (n > 0 && !asked_to_stop)
	{
		put_byte(address, BREAKPOINT);
		if (ptrace(PTRACE_CONT, pid, 0, sent) < 0)
			die("cannot continue process %d: %s", pid, strerror(errno));
		sent = await_stop();
		put_byte(address, saved);
		registers(&regs);
		if (sent != 0 || regs.rip != address + 1)
			continue;
		regs.rip = address;
		ptrace(PTRACE_SETREGS, pid, 0, &regs);
		if (--n > 0)
		{
			ptrace(PTRACE_SINGLESTEP, pid, 0, 0);
			sent = await_stop();
		}
	}
}

/* ---------- instructions ---------- */

static Kind
kind_of(const uint8_t *code)
{
	bool		repeat = false;
	uint8_t		op;

	/* prefixes: repeat (or bnd), operand size, notrack, REX */
	while (*code == 0xf2 || *code == 0xf3 || *code == 0x66 || *code == 0x3e || (*code & 0xf0) == 0x40)
	{
		repeat |= *code == 0xf2 || *code == 0xf3;
		code++;
	}
	op = code[0];
	if (op == 0xe8 || (op == 0xff && (code[1] >> 3 & 7) == 2))
		return KIND_CALL;
	if (op == 0xc3 || op == 0xc2)
		return KIND_RETURN;
	if (op == 0x0f && code[1] == 0x05)
		return KIND_SYSCALL;
	/* movs, cmps; stos, lods, scas */
	if (repeat && ((op >= 0xa4 && op <= 0xa7) || (op >= 0xaa && op <= 0xaf)))
		return KIND_REPEAT;
	return KIND_OTHER;
}

static const Place *
place_at(uint64_t address)
{
	uint32_t	i = (address * UINT64_C(11400714819323198485)) >> 44;
	uint8_t		code[16] = {0};

	while (places[i].address != 0 && places[i].address != address)
		i = (i + 1) % NPLACES;
	if (places[i].address == 0)
	{
		if (++nplaces > NPLACES / 2)
			die("too many different instructions");
		places[i].address = address;
		places[i].symbol = symbol_at(address, &places[i].group);

		/*
		 * the last page of a mapping may end here; what is no memory of a
		 * file, as the vDSO, reads as well
		 */
		if (pread(memory, code, sizeof(code) - 1, address) > 0)
			places[i].kind = kind_of(code);
	}
	return &places[i];
}

/* ---------- the stack ---------- */

static Frame stack[MAX_DEPTH];
static int	depth = 0;
static int	group;				/* of the function under way */

/* The group of the instruction at a place, which was reached from another one. */
static void
follow(const Place * from, const Place * to, uint64_t rsp)
{
	if (from->kind == KIND_CALL)
	{
		if (depth == MAX_DEPTH)
			die("more than %d calls deep", MAX_DEPTH);
		stack[depth].stack = rsp;
		stack[depth++].group = group;
		if (to->group != NO_GROUP)
			group = to->group;
		return;
	}
	if (from->kind == KIND_RETURN && depth > 0 && stack[depth - 1].stack < rsp)
	{
		while (depth > 0 && stack[depth - 1].stack < rsp)
			group = stack[--depth].group;
		return;
	}
	if (from->symbol !=to->symbol &&to->symbol >=0)
	{
		/*
		 * a jump to another function, which returns to the caller; a signal;
		 * a return from what was called unseen
		 */
		while (depth > 0 && stack[depth - 1].stack < rsp)
			depth--;
		group = to->group != NO_GROUP ? to->group : depth > 0 ? stack[depth - 1].group : groups_count() - 1;
	}
}

/* ---------- samples ---------- */

static void
print_names(void)
{
	printf("instructions\tsyscalls\tsignals");
	for (int i = 0; i < groups_count(); i++)
		printf("\t%s", group_name(i));
	printf("\n");
}

static void
print_sample(const Sample * sample)
{
	uint64_t	sum = 0;

	for (int i = 0; i < groups_count(); i++)
		if (group_counts(i))
			sum += sample->instructions[i];
	printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, sum, sample->syscalls, sample->signals);
	for (int i = 0; i < groups_count(); i++)
		printf("\t%" PRIu64, sample->instructions[i]);
	printf("\n");
	fflush(stdout);
}

/* Instructions without a symbol are those of static functions in a stripped file, and of the vDSO. */
static void
write_functions(const char *path)
{
	FILE	   *file = fopen(path, "w");

	if (file == NULL)
		die("cannot write %s", path);
	for (int i = 0; i < symbols_count(); i++)
		if (by_symbol[i] > 0)
			fprintf(file, "%" PRIu64 "\t%s\n", by_symbol[i], symbol_name(i));
	fprintf(file, "%" PRIu64 "\t(without a name)\n", without_symbol);
	fclose(file);
}

/* Has the process, which is about to execute what is at an address, come to the end of a transaction? */
static bool
is_border(uint64_t address)
{
	static bool ended = false;

	if (address == end_address)
		ended = true;
	if (!ended || address != read_address)
		return false;
	ended = false;
	return true;
}

/* Execute one instruction; returns the number of signals that came with it. */
static int
step(void)
{
	int			nsignals = 0;
	int			sent = 0;

	do
	{
		if (ptrace(PTRACE_SINGLESTEP, pid, 0, sent) < 0)
			die("cannot step process %d: %s", pid, strerror(errno));
		sent = await_stop();
		nsignals += sent != 0;
	} while (sent != 0);
	return nsignals;
}

/* The part of a transaction before the first border is in no sample. */
static void
step_through(int samples, int transactions)
{
	static const Sample empty = {0};
	static const Place nowhere = {0};
	const Place *last = &nowhere;
	Sample		sample = empty;
	int			nborders = 0;
	struct user_regs_struct regs;

	group = groups_count() - 1;
	while (!asked_to_stop)
	{
		const Place *place;

		registers(&regs);
		place = place_at(regs.rip);
		follow(last, place, regs.rsp);
		if (is_border(regs.rip) && nborders++ % transactions == 0)
		{
			if (nborders > 1)
				print_sample(&sample);
			if (nborders > samples * transactions)
				return;
			sample = empty;
		}
		if (place->kind != KIND_REPEAT || place != last)
		{
			sample.instructions[group]++;
			if (nborders > 0)
				*(place->symbol >= 0 ? &by_symbol[place->symbol] : &without_symbol) += 1;
		}
		sample.syscalls += place->kind == KIND_SYSCALL;
		sample.signals += step();
		last = place;
	}
}

static int
number(const char *text)
{
	char	   *end;
	long		n = strtol(text, &end, 10);

	if (*end != '\0' || n < 1 || n > INT32_MAX / 1000)
		die("not a number: %s", text);
	return n;
}

int
main(int argc, char **argv)
{
	if (argc != 6 && argc != 7)
		die("usage: stepper PID WARMUP SAMPLES TRANSACTIONS GROUPS [FUNCTIONS]");
	pid = number(argv[1]);
	groups_read(argv[5]);
	signal(SIGTERM, stop_soon);
	signal(SIGINT, stop_soon);
	signal(SIGHUP, stop_soon);
	attach();
	symbols_read(pid);
	end_address = symbol_address("ProcArrayEndTransaction");
	read_address = symbol_address("pq_startmsgread");
	by_symbol = calloc(symbols_count(), sizeof(*by_symbol));
	if (by_symbol == NULL)
		die("out of memory");
	if (end_address == 0 || read_address == 0)
		die("process %d is not PostgreSQL, or has no symbols", pid);

	run_to(end_address, number(argv[2]));
	share_processor();
	print_names();
	step_through(number(argv[3]), number(argv[4]));
	if (argc == 7)
		write_functions(argv[6]);
	return asked_to_stop ? 1 : 0;
}
