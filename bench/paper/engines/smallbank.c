/*
 * smallbank.c -- Smallbank (M. Alomari and others: The Cost of Serializability on Platforms That Use Snapshot
 * Isolation, ICDE 2008; the mix of H-Store's version).
 *
 * Each account has three rows: the account, its savings, its checking.  A transaction reads the accounts it is about,
 * then reads balances, and changes some of them.  --rows is the number of accounts; --theta draws them.
 */
#include "workload.h"

enum
{
	ACCOUNTS, SAVINGS, CHECKING
};

#define BALANCE_BYTES	16		/* version and balance */

void
smallbank_setup(void)
{
	uint32		n = workload_settings.rows;

	add_table("accounts", n, 80, BALANCE_BYTES, true);
	add_table("savings", n, 24, BALANCE_BYTES, true);
	add_table("checking", n, 24, BALANCE_BYTES, true);
	zipf_setup(n, workload_settings.theta);
	set_max_record(3, 3 * (BALANCE_BYTES + 8), 3 * (24 + 8));
}

static Op
change_of(int table, uint32 account)
{
	Op			op = write_of(table, account, BALANCE_BYTES);

	op.read = true;
	return op;
}

static uint32
draw_account(Generator *g)
{
	return zipf_row(g, workload_settings.rows, workload_settings.theta);
}

static uint32
draw_other(Generator *g, uint32 account)
{
	uint32		other = draw_account(g);

	while (other == account)
		other = draw_account(g);
	return other;
}

/* All of one account goes to the checking of another one. */
static int
amalgamate(Generator *g, Op *ops, uint32 from)
{
	uint32		to = draw_other(g, from);
	int			n = 0;

	ops[n++] = read_of(ACCOUNTS, from);
	ops[n++] = read_of(ACCOUNTS, to);
	ops[n++] = change_of(SAVINGS, from);
	ops[n++] = change_of(CHECKING, from);
	ops[n++] = change_of(CHECKING, to);
	return n;
}

static int
balance(Op *ops, uint32 account)
{
	int			n = 0;

	ops[n++] = read_of(ACCOUNTS, account);
	ops[n++] = read_of(SAVINGS, account);
	ops[n++] = read_of(CHECKING, account);
	return n;
}

/* Deposit-Checking and Transact-Savings. */
static int
deposit(Op *ops, int table, uint32 account)
{
	int			n = 0;

	ops[n++] = read_of(ACCOUNTS, account);
	ops[n++] = change_of(table, account);
	return n;
}

static int
send_payment(Generator *g, Op *ops, uint32 from)
{
	uint32		to = draw_other(g, from);
	int			n = 0;

	ops[n++] = read_of(ACCOUNTS, from);
	ops[n++] = read_of(ACCOUNTS, to);
	ops[n++] = change_of(CHECKING, from);
	ops[n++] = change_of(CHECKING, to);
	return n;
}

static int
write_check(Op *ops, uint32 account)
{
	int			n = 0;

	ops[n++] = read_of(ACCOUNTS, account);
	ops[n++] = read_of(SAVINGS, account);
	ops[n++] = change_of(CHECKING, account);
	return n;
}

int
smallbank(Generator *g, Op *ops)
{
	uint32		dice = random_below(g, 100);
	uint32		account = draw_account(g);

	if (dice < 15)
		return amalgamate(g, ops, account);
	if (dice < 30)
		return balance(ops, account);
	if (dice < 45)
		return deposit(ops, CHECKING, account);
	if (dice < 70)
		return send_payment(g, ops, account);
	return dice < 85 ? deposit(ops, SAVINGS, account) : write_check(ops, account);
}
