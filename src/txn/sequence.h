/*
 * sequence.h -- log-free commits and PostgreSQL's sequences.
 */
#ifndef ZEN_SEQUENCE_H
#define ZEN_SEQUENCE_H

/*
 * zen_flush_sequences -- if this transaction has used a sequence, make sure that no crash can take the sequence back.
 *
 * Called before a zen-only commit becomes durable.  May throw.
 */
extern void zen_flush_sequences(void);

#endif							/* ZEN_SEQUENCE_H */
