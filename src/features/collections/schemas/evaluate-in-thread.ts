/** Evaluates a schema on a document in a worker thread: for documents that take too many steps on this one. */

import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { CpuBudget } from '../../../infra/cpu-budget.ts'
import { inThread } from '../../threads/run-in-thread.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { evaluateDocument, isPending, type Validation, type Violation } from './evaluate-schema.ts'
import { prepare, type SchemaObject } from './schema-language.ts'

/**
 * Finds the violations, however many steps that takes.
 * @param budget is charged with the CPU time
 * @throws Problem `validation_too_costly` if it takes more than `validationMs` of CPU time; `overloaded`
 */
export async function evaluateInThread(
  scope: AdminScope | WorkspaceScope,
  { schema, fields }: Validation,
  budget?: CpuBudget,
): Promise<readonly Violation[]> {
  const result = await inThread(scope, 'validate', { schema, fields }, COLLECTION_LIMITS.validationMs)
  budget?.charge(result.cpuMs)
  if ('value' in result) return result.value
  const detail = `Validation against the collection's schema took more than ${COLLECTION_LIMITS.validationMs} ms of CPU time.`
  throw new Problem('validation_too_costly', { detail })
}

/**
 * Evaluates the subschema of one property on a value.
 * @param schema that it is of
 * @returns the first violation; undefined if the value is valid
 */
export async function findViolation(
  scope: AdminScope,
  {
    schema,
    property,
    value,
  }: { readonly schema: SchemaObject; readonly property: unknown; readonly value: unknown },
  budget: CpuBudget,
): Promise<Violation | undefined> {
  const prepared = prepare({ properties: { value: property }, $defs: schema['$defs'] ?? {} })
  const found = budget.run(() => evaluateDocument(prepared, { value }))
  const [violation] = isPending(found) ? await evaluateInThread(scope, found, budget) : found
  return violation
}
