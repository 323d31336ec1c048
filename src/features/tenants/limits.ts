/** Limits of suspending tenants and workspaces. */

export const TENANT_LIMITS = {
  /** Executions that one page of a suspension has. Further ones are on the next page. */
  suspensionPageExecutions: 500,
  /** Signals that a suspension sends at a time. Further ones are sent next. */
  suspensionSignalsMax: 16,
} as const
