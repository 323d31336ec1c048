/** The operations of keys and user tokens: those on data, and executions and approvals of flows, runs of functions. */

import { PAYLOADS_SCOPE } from '../access/payload-access.ts'
import type { AnyOperation } from '../core/operation.ts'
import { DATA_OPERATIONS } from './data-operations.ts'
import { FLOW_KEY_OPERATIONS } from './flows/executions/key-operations.ts'
import { FUNCTION_KEY_OPERATIONS } from './functions/runs/key-operations.ts'

export const KEY_OPERATIONS: readonly AnyOperation[] = [
  ...DATA_OPERATIONS,
  ...FLOW_KEY_OPERATIONS,
  ...FUNCTION_KEY_OPERATIONS,
]

/** Every scope that an operation needs, and the one that shows payloads of others, in the order of their names. */
export const SCOPES: readonly string[] = [
  ...new Set([PAYLOADS_SCOPE, ...KEY_OPERATIONS.flatMap(({ requiredScope }) => requiredScope ?? [])]),
].sort()
