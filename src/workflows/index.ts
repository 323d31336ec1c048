/**
 * All workflow definitions; the entry of the bundle. Temporal's workflow type is a label for operators, the name of the flow or
 * function; the sealed argument of a workflow says which definition runs (`tenant-interceptor.ts`).
 */

import { bulkChange } from './collection/bulk-change.ts'
import { indexBuild } from './collection/index-build.ts'
import { flowExecution } from './flow/flow-execution.ts'
import { functionRun } from './function/function-run.ts'
import { registration, scheduledStart } from './scheduled-start.ts'
import { provision } from './tenant/provision.ts'
import { suspension } from './tenant/suspension.ts'

const DEFINITIONS: Readonly<Record<string, (input: never) => Promise<unknown>>> = {
  bulkChange,
  flowExecution,
  functionRun,
  indexBuild,
  provision,
  registration,
  scheduledStart,
  suspension,
}

/** Temporal runs the default export for every type that has no export of its own, and there are none. */
export default async function runDefinition(name: string, input: never): Promise<unknown> {
  const definition = DEFINITIONS[name]
  if (definition === undefined) throw new TypeError(`There is no workflow definition ${name}.`)
  return definition(input)
}
