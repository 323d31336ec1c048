/** Executions that another execution begins: of a flow of its own workspace, by its name and version. */

import { Problem } from '../../core/problem.ts'
import type { Json, Subflow } from '../../core/work.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { admitted } from './executions.ts'

/**
 * Idempotent: its id is the same at each attempt of the same call.
 * @param asked `{namespace, name, version, input, started_by?}`; `version` is that of the document, or `latest`
 * @throws Problem `not_found` where the workspace has no such flow, published in such a version
 */
export async function beginSubflow(scope: WorkspaceScope, asked: { [name: string]: Json }): Promise<Subflow> {
  const { namespace, name, version, input = {}, started_by } = asked
  const id = scope.newId('run')
  const by = typeof started_by === 'string' ? started_by : scope.actor.subject
  const document = sql`(v.ir::jsonb -> 'document')`
  const which = sql`${document} ->> 'name' = ${String(name)} and ${document} ->> 'namespace' = ${String(namespace)}
    and (${String(version)} = 'latest' or ${document} ->> 'version' = ${String(version)})`
  const run = await admitted(scope, { id, input, by }, which)
  if (run === undefined) {
    const detail = `There is no flow ${namespace}/${name} published in the version ${version}.`
    throw new Problem('not_found', { detail })
  }
  const flow = { id: run.flow_id, name: run.flow_name, version: run.version }
  return {
    workflow_id: run.workflow_id,
    run: { execution_id: id, flow, ir: JSON.parse(run.ir), input, started_by: by },
  }
}
