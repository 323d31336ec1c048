/** How often activities are retried. Rows without `maximumAttempts` end only with their workflow, or with a time that the call gives. */

/** By what the activity does. */
export const RETRIES = {
  /** Writes a record of the platform, which must not be lost, however long its database is unavailable. */
  record: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
  /** A call of a flow: an operation of the platform. Requests take its intervals, and a number of attempts of their own (flow/calls.ts). */
  call: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '30s', maximumAttempts: 8 },
  /**
   * The start of a run or a subflow, which is idempotent, until its time limit: an execution does not fail since Temporal, the database
   * or a worker was away for a while. The interceptor of activities ends what fails otherwise as often as `call` allows.
   */
  start: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '30s' },
  /** The start of what a schedule has made due, until its patience ends. */
  dueStart: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s' },
  /** A step of a creation or removal, which waits for servers that are away. */
  provision: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '1m' },
  /** Builds indexes, which may take hours. */
  build: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '30s' },
} as const
