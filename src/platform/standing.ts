/** How a workflow stands, as Temporal says it. */

/** Open, or how it has ended: from outside, or by itself. */
export type Standing = 'open' | 'completed' | 'faulted' | 'cancelled' | 'terminated'

const STANDINGS: Readonly<Record<string, Standing>> = {
  COMPLETED: 'completed',
  FAILED: 'faulted',
  TIMED_OUT: 'terminated',
  TERMINATED: 'terminated',
  CANCELLED: 'cancelled',
}

/** @param status its name in the Temporal API; what goes on in a new history is open */
export const standingOf = (status: string): Standing => STANDINGS[status] ?? 'open'
