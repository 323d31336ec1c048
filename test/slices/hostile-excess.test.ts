/** Callers who ask for too much: they are refused or served in parts, and nobody else notices. */

import { expect, inject, test } from 'vitest'
import { aRoom, call, eventually } from '../support/tenants.ts'

test('a page of many large documents is refused; a smaller one is served', async () => {
  const room = await aRoom()
  const path = '/v1/collections/large/documents'
  const text = 'x'.repeat(260_000)
  for (let n = 0; n < 140; n += 10) {
    const written = Array.from({ length: 10 }, () => call('POST', path, { as: room.service, body: { text } }))
    for (const { status } of await Promise.all(written)) expect(status).toBe(201)
  }
  const query = (limit: number) =>
    call('POST', '/v1/collections/large/query', { as: room.anon, body: { limit } })
  const refused = await query(1_000)
  expect([refused.status, refused.body.code]).toEqual([413, 'output_too_large'])
  const served = await query(100)
  expect([served.status, served.body.data.length, served.body.page.has_more]).toEqual([200, 100, true])
})

test('a past of megabytes is sent to its end, as fast as it is taken, and then what is new', async () => {
  const room = await aRoom()
  const publish = (data: string) =>
    call('POST', '/v1/events/publish', { as: room.service, body: { topic: 'large', data } })
  const count = 40
  for (let n = 0; n < count; n++) expect((await publish(`${n}:${'x'.repeat(200_000)}`)).status).toBe(202)
  const controller = new AbortController()
  const { body } = await fetch(`${inject('tenon').url}/v1/events/subscribe?topic=large`, {
    headers: { ...room.anon, 'last-event-id': '0-0' },
    signal: controller.signal,
  })
  let text = ''
  const read = (async () => {
    for await (const chunk of body ?? []) text += new TextDecoder().decode(chunk)
  })().catch(() => {})
  await eventually(async () => (text.includes(`${count - 1}:xxx`) ? true : undefined))
  await publish('new')
  await eventually(async () => (text.includes('"data":"new"') ? true : undefined))
  controller.abort()
  await read
  const heard = [...text.matchAll(/"data":"(\d+):x/g)].map(([, n]) => Number(n))
  expect(heard).toEqual(Array.from({ length: count }, (_, n) => n))
  expect(text).not.toContain('event: end')
})

test('HEAD on a feed is refused: its answer would have no end', async () => {
  const room = await aRoom()
  const head = await call('HEAD', '/v1/events/subscribe?topic=a', { as: room.service })
  expect([head.status, head.headers.get('allow')]).toEqual([405, 'GET'])
})

test('a method that no route has is refused like the others, whatever it is', async () => {
  const room = await aRoom()
  const refused = await call('QUERY', '/v1/events/publish', { as: room.service })
  expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'POST'])
})

test('JSON of any depth is a mistake of the client', async () => {
  const room = await aRoom()
  const deep = '['.repeat(100_000) + ']'.repeat(100_000)
  const event = { as: room.service, body: `{"topic":"a","data":${deep}}` }
  expect((await call('POST', '/v1/events/publish', event)).status).toBe(400)
  const body = `{"workspace_id":"${room.workspaceId}","experimental":${deep}}`
  expect((await call('POST', '/v1/services/configure', { as: room.operator, body })).status).toBe(400)
})
