/** Reads of a run in the audit log: the names that the code passes may contain secrets. */

import { expect, test } from 'vitest'
import type { AuditEvent } from '../../../src/access/audit/entry.ts'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import { ReadTally } from '../../../src/activities/function/invocation-host.ts'
import { Problem } from '../../../src/core/problem.ts'
import { listDocuments } from '../../../src/features/collections/documents-api.ts'

test('reads, done and failed: name their target as it is masked', () => {
  const events: Partial<AuditEvent>[] = []
  const enqueue = (event: AuditEvent) => events.push(event)
  const scope = {
    ref: { tenantId: 'ten_1', workspaceId: 'ws_1' },
    actor: { role: 'service', subject: 'run' },
    audit: { enqueue, enqueueThrottled: enqueue },
  } as unknown as WorkspaceScope
  const by = { kind: 'run', requestId: 'run_1', redactedArgs: { name: '***' } } as const
  const tally = new ReadTally()
  tally.add(listDocuments, scope, { name: 'hunter2-hunter2' }, by)
  tally.add(listDocuments, scope, { name: 'hunter2-hunter2' }, by, new Problem('not_found'))
  tally.flush()
  expect(events).toHaveLength(2)
  expect(JSON.stringify(events)).not.toContain('hunter2')
  expect(events.map(({ target }) => target)).toEqual([
    expect.stringContaining('***'),
    expect.stringContaining('***'),
  ])
})
