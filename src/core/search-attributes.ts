/** The search attributes of workflows in Temporal, all of type Keyword. Every namespace registers exactly these. */

/** Their values contain names of definitions and ids of the platform, never data. */
export const SEARCH_ATTRIBUTES = [
  'TenantId',
  'WorkspaceId',
  'FlowId',
  'FlowName',
  'FlowVersion',
  'ExecutionId',
  'RunStatus',
  'TriggerKind',
  'CorrelationKey',
  'ErrorType',
] as const

/** Values of search attributes by name. */
export type SearchAttributes = { readonly [Name in (typeof SEARCH_ATTRIBUTES)[number]]?: string }

/**
 * Values of `RunStatus`, which says what Temporal's own status does not. An execution that never stops has none; one that
 * continues is `running`, and one that ends afterwards has its final status.
 */
export type RunStatus =
  | 'running'
  | 'waiting_for_approval'
  | 'waiting_for_event'
  | 'held'
  | 'queued'
  | 'paused'
  | 'suspended'
  | 'completed'
  | 'faulted'
  | 'cancelled'
