/** `If-Match` on drafts of flows and curations of MCP servers: a foreign change is not overwritten. */

import { expect, test } from 'vitest'
import { createMcpWorkspace, publishMcpServer } from '../../support/clients/mcp.ts'
import { type Caller, call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const sourceOf = (text: string) =>
  `document: { dsl: '1.0.3', namespace: n, name: draft, version: '1.0.0' }\ndo:\n  - a: { set: { x: ${text} } }\n`

/** A resource with a condition on its PUT. */
interface Draft {
  readonly as: Caller
  /** Whose ETag is that of the draft. */
  readonly read: string
  readonly write: string
  readonly body: (text: string) => object
  readonly shown: (body: Record<string, unknown>) => unknown
}

const DRAFTS: Readonly<Record<string, () => Promise<Draft>>> = {
  'draft of a flow': async () => {
    const { flows, operator: as } = await createTestWorkspace()
    await call('POST', `${flows}/definitions`, { as, body: { source: sourceOf('first') } })
    const path = `${flows}/definitions/draft`
    const body = (text: string) => ({ source: sourceOf(text) })
    return { as, read: path, write: path, body, shown: ({ source }) => source }
  },
  'curation of an MCP server': async () => {
    const workspace = await createMcpWorkspace()
    const { base } = await publishMcpServer(workspace, 'conditions')
    const body = (text: string) => ({
      tools: {},
      prompts: { [text]: { messages: [{ role: 'user', content: { type: 'text', text } }] } },
    })
    const shown = ({ curation }: Record<string, unknown>) => Object.keys(Object(curation).prompts)[0]
    return { as: workspace.operator, read: base, write: `${base}/curation`, body, shown }
  },
}

test.each(Object.entries(DRAFTS))(
  '%s: changed under the ETag that was read, else 412 with the present one; without a condition as ever',
  async (_name, make) => {
    const { as, read, write, body, shown } = await make()
    const get = () => call('GET', read, { as })
    const put = (text: string, ifMatch?: string) =>
      call('PUT', write, {
        as,
        body: body(text),
        headers: ifMatch === undefined ? {} : { 'if-match': ifMatch },
      })
    const first = (await get()).headers.get('etag') ?? ''
    expect(first).toMatch(/^"[\w-]{22}"$/)
    const mine = await put('mine', first)
    expect([mine.status, mine.body.errors]).toEqual([200, undefined])
    const tag = mine.headers.get('etag') ?? ''
    expect(tag).not.toBe(first)
    expect((await get()).headers.get('etag')).toBe(tag)
    const theirs = await put('theirs', first)
    expect([theirs.status, theirs.body.code]).toEqual([412, 'precondition_failed'])
    expect(theirs.headers.get('etag')).toBe(tag)
    expect(theirs.body.detail).toContain(`its ETag is ${tag} now`)
    expect(shown((await get()).body)).toEqual(shown(mine.body))
    expect((await put('all', '*')).status).toBe(200)
    expect((await put('weak', `W/${tag}`)).status).toBe(412)
    expect((await put('one-of', `"other", ${(await get()).headers.get('etag')}`)).status).toBe(200)
    expect((await put('without')).status).toBe(200)
  },
)

test.each(Object.entries(DRAFTS))(
  '%s: of two changes under one ETag at once, one is made',
  async (_name, make) => {
    const { as, read, write, body, shown } = await make()
    const ifMatch = (await call('GET', read, { as })).headers.get('etag') ?? ''
    const sent = ['a', 'b', 'c', 'd', 'e'].map((text) =>
      call('PUT', write, { as, body: body(text), headers: { 'if-match': ifMatch } }),
    )
    const replies = await Promise.all(sent)
    const made = replies.filter(({ status }) => status === 200)
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 412, 412, 412, 412])
    const now = await call('GET', read, { as })
    expect(shown(now.body)).toEqual(shown(made[0]?.body))
    for (const { headers } of replies) expect(headers.get('etag')).toBe(now.headers.get('etag'))
  },
)

test('draft of a flow that is not there, sent with a condition: 404', async () => {
  const { flows, operator: as } = await createTestWorkspace()
  const body = { source: sourceOf('first') }
  const reply = await call('PUT', `${flows}/definitions/none`, { as, body, headers: { 'if-match': '*' } })
  expect([reply.status, reply.body.code]).toEqual([404, 'not_found'])
})
