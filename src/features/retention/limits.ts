/** Limits of retention: how long what grows is kept, and how it is removed. */

export const RETENTION_LIMITS = {
  /** How long rows are kept unless the setting of their tenant or workspace says otherwise. Then they are removed. */
  kept: {
    /** Duration since it was written for which an entry of the audit log is kept. Then it is removed. */
    audit: '400d',
    /** Duration since the call for which an entry of the log of calls of an MCP server is kept. Then it is removed. */
    mcpCalls: '400d',
    /** Duration since its end for which an operation is kept. Then it is removed. */
    operations: '90d',
    /** Duration for which counts of requests by the minute are kept. Then they are removed. */
    meters: '90d',
    /** Duration for which records of the usage of an hour are kept. Then they are removed. */
    usage: '400d',
    /** Duration for which the id of a webhook delivery is kept. Then a repeated delivery counts as a new one. */
    webhookDeliveries: '30d',
  },
  /** The shortest periods that settings may have. */
  keptMin: {
    /** Duration of `audit`, `mcp_calls` and `usage`, at least, so that a thief cannot remove the traces at once. A shorter one is refused with `validation_failed`. */
    logs: '30d',
    /** Duration of `operations`, `meters` and `webhook_deliveries`, at least. A shorter one is refused with `validation_failed`. */
    others: '3d',
    /** Duration of `executions` and `function_runs`, at least: until their usage is recorded. A shorter one is refused with `validation_failed`. */
    runs: '2h',
  },
  /** Duration of any period, at most. A longer one is refused with `validation_failed`. */
  keptMax: '3650d',
  /** Workspaces whose rows are removed at a time. Further ones wait. */
  workspacesMax: 20,
  /** Chains of which one round removes entries. Further ones wait. */
  chainsMax: 20,
  /** Rows of a table that one statement deletes. Further ones are deleted next. */
  rowsMax: 1_000,
  /** Seconds between two rounds of a workspace or chain: a twelfth of its shortest period, within these bounds. Then it is looked at again. */
  pauseSeconds: { min: 300, max: 3_600 },
  /** Seconds in which the workspaces are looked at for the usage of an hour, one after the other. Then all are. */
  usageSpreadSeconds: 240,
  /** Milliseconds for which rows of one kind are removed in a round. The next round goes on after them. */
  servedMs: 15_000,
} as const
