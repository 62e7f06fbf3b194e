/*
 * server.h -- differences between PostgreSQL versions in what product.c stands in for, and nothing else.
 */
#ifndef ENGINES_SERVER_H
#define ENGINES_SERVER_H

#include "postgres.h"

/* 16 no longer tells the kind of a failed assertion. */
#if PG_VERSION_NUM < 160000
#define ASSERTION_ARGS	const char *condition, const char *type, const char *file, int line
#else
#define ASSERTION_ARGS	const char *condition, const char *file, int line
#endif

/* Which name the server's headers give the checksum that its library would have: none with SSE 4.2 since 18. */
#if defined(USE_SSE42_CRC32C) && PG_VERSION_NUM < 180000
#define CRC_IS_SSE42	1
#elif !defined(USE_SSE42_CRC32C)
#define CRC_IS_POINTER	1
#endif

#endif							/* ENGINES_SERVER_H */
