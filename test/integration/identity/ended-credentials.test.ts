/** Open streams end when their credential or tenant ends. */

import { afterEach, describe, expect, inject, test } from 'vitest'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

const open: AbortController[] = []
afterEach(() => {
  for (const controller of open.splice(0)) controller.abort()
})

/** An open stream: its output so far, and whether the server has ended it. */
interface Stream {
  text: string
  ended: boolean
}

async function subscribe(as: Caller, topic: string): Promise<Stream> {
  const controller = new AbortController()
  open.push(controller)
  const url = `${inject('tenon').url}/v1/events/subscribe?topic=${topic}`
  const response = await fetch(url, { headers: { ...as }, signal: controller.signal })
  const stream: Stream = { text: '', ended: false }
  void (async () => {
    for await (const chunk of response.body ?? []) stream.text += new TextDecoder().decode(chunk)
    stream.ended = true
  })().catch(() => {})
  await eventually(async () => (/event: ready/.test(stream.text) ? true : undefined))
  return stream
}

const waitForEnd = (stream: Stream) => eventually(async () => (stream.ended ? stream.text : undefined), 8_000)

const suspend = ({ tenantId }: TestWorkspace) =>
  asSuperuser(`update tenon.tenants set state = 'suspended' where id = $1`, [tenantId])

describe('open stream', () => {
  test('stream: its key is revoked: ends; streams of other keys continue', async () => {
    const workspace = await createTestWorkspace()
    const body = { workspace_id: workspace.workspaceId, kind: 'anon', name: 'leaked' }
    const leaked = (await call('POST', '/v1/api-keys', { as: workspace.operator, body })).body
    const [stream, other] = await Promise.all([
      subscribe({ apikey: leaked.key }, 'secrets'),
      subscribe(workspace.anon, 'secrets'),
    ])
    await call('DELETE', `/v1/api-keys/${leaked.id}`, { as: workspace.operator })
    expect(await waitForEnd(stream)).toContain('event: end\ndata: {"code":"api_key_revoked"}')
    await call('POST', '/v1/events/publish', {
      as: workspace.service,
      body: { topic: 'secrets', data: 'for those who may' },
    })
    await eventually(async () => (/for those who may/.test(other.text) ? true : undefined))
    expect(other.ended).toBe(false)
    expect(stream.text).not.toContain('for those who may')
  })

  test('stream: its tenant is suspended, or its token expires: ends', async () => {
    const workspace = await createTestWorkspace()
    const claims = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
    // Clock skew of 30 s is tolerated.
    const exp = Math.floor(Date.now() / 1_000) - 27
    const [byKey, byToken] = await Promise.all([
      subscribe(workspace.service, 'a'),
      subscribe(await tokenOf({ ...claims, exp }), 'a'),
    ])
    expect(await waitForEnd(byToken)).toContain('"code":"token_expired"')
    await suspend(workspace)
    expect(await waitForEnd(byKey)).toContain('"code":"tenant_suspended"')
  })
})
