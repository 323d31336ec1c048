/** Idempotent requests whose database connection is lost right after a statement was executed. */

import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { type Claim, Idempotency } from '../../../src/access/idempotency.ts'
import type { WorkspaceScope } from '../../../src/access/scope.ts'
import type { Platform } from '../../../src/app/platform.ts'
import { Problem } from '../../../src/core/problem.ts'
import { Secrets } from '../../../src/infra/crypto/secrets.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'

let platform: Platform
let scope: WorkspaceScope
let idempotency: Idempotency
beforeAll(async () => {
  platform = openInProcessPlatform()
  scope = scopeOf(platform, await createTestWorkspace())
  idempotency = new Idempotency(new Secrets(inject('tenon').masterKey))
})
afterAll(() => platform.close())

/** The same scope; its first `times` replies are lost, whether or not the statement was executed. */
function withLostReplies(times: number, isDone: boolean): WorkspaceScope {
  let left = times
  const batch: WorkspaceScope['batch'] = async (...statements) => {
    if (left <= 0) return scope.batch(...statements)
    left -= 1
    if (isDone) await scope.batch(...statements)
    throw new Problem('dependency_unavailable')
  }
  return Object.assign(Object.create(scope) as WorkspaceScope, { batch })
}

const sha256 = (text: string) => createHash('sha256').update(text).digest()
const newRequest = () => ({ id: sha256(randomUUID()), request: sha256('the same') })

test.each([true, false])('claim: reply lost (executed: %s): released', async (isDone) => {
  const request = newRequest()
  await expect(idempotency.claim(withLostReplies(1, isDone), request)).rejects.toMatchObject({
    code: 'dependency_unavailable',
  })
  expect(await idempotency.claim(scope, request)).toMatchObject({ completion: { attempt: 1 } })
})

test('claim: held by an earlier request, reply lost: not released', async () => {
  const request = newRequest()
  const held = (await idempotency.claim(scope, request)) as Claim
  await expect(idempotency.claim(withLostReplies(1, true), request)).rejects.toMatchObject({
    code: 'dependency_unavailable',
  })
  await expect(idempotency.claim(scope, request)).rejects.toMatchObject({ code: 'idempotency_in_flight' })
  await held.release()
  expect(await idempotency.claim(scope, request)).toMatchObject({ completion: { attempt: 2 } })
})

test.each(['release', 'forget', 'keep'] as const)(
  'claim %s: connection lost: tried once more',
  async (fate) => {
    const request = newRequest()
    // The claim itself succeeds; the next two replies are lost.
    let isClaimed = false
    const lost = withLostReplies(2, false)
    const batch: WorkspaceScope['batch'] = (...statements) => (isClaimed ? lost : scope).batch(...statements)
    const lossyScope = Object.assign(Object.create(scope) as WorkspaceScope, { batch })
    const claim = (await idempotency.claim(lossyScope, request)) as Claim
    isClaimed = true
    const reply = { status: 201, headers: {}, body: 'made' }
    await (fate === 'keep' ? claim.store(reply) : claim[fate]())
    const after = await idempotency.claim(scope, request)
    expect(after).toMatchObject(
      fate === 'keep' ? reply : { completion: { attempt: fate === 'release' ? 2 : 1 } },
    )
  },
)
