/** Executions that another execution begins: of a flow of its own workspace, by its name and version. */

import { typeId } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import type { Subflow } from '../../core/run.ts'
import type { Json } from '../../core/work.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { admit } from './start.ts'

/**
 * Idempotent: its id is the same at each attempt of the same call.
 * @param asked `{namespace, name, version, input, started_by?}`; `version` is that of the document, or `latest`
 * @throws Problem `not_found` where the workspace has no such flow, published in such a version
 */
export async function beginSubflow(scope: WorkspaceScope, asked: { [name: string]: Json }): Promise<Subflow> {
  const { namespace, name, version, input = {}, started_by } = asked
  const id = scope.newId('run')
  const by = typeof started_by === 'string' ? started_by : scope.actor.subject
  const which = sql`v.document_name = ${String(name)} and v.namespace = ${String(namespace)}
    and (${String(version)} = 'latest' or v.document_version = ${String(version)})`
  const admitted = await admit(scope, which, {
    id,
    input,
    by,
    trigger: { kind: 'flow', id: parentOf(scope) },
  })
  if (admitted === undefined) {
    const detail = `There is no flow ${namespace}/${name} published in the version ${version}.`
    throw new Problem('not_found', { detail })
  }
  return { workflow_id: admitted.workflowId, run: admitted.run }
}

/** The execution whose activity this is. */
function parentOf({ actor }: WorkspaceScope): string {
  return typeId('run', actor.subject.split(':').at(-1) ?? '')
}
