/** RUN_KINDS: the kinds of durable work that the kernel of runs keeps (runs/run-kind.ts). */

import { BULK_CHANGES } from './collections/bulk/bulk-change-kind.ts'
import { EXECUTIONS } from './flows/executions/execution-kind.ts'
import { FUNCTION_RUNS } from './functions/runs/function-run-kind.ts'
import type { RunKind } from './runs/run-kind.ts'

export const RUN_KINDS: readonly RunKind[] = [EXECUTIONS, FUNCTION_RUNS, BULK_CHANGES]
