/** Runs of a suspended tenant stand still and go on where they stopped, each effect once. */

import { beforeAll, describe, expect, test } from 'vitest'
import { documents, publish, resume, runOf, shown, start, suspend } from '../support/suspension.ts'
import { aRoom, asSuperuser, type Room } from '../support/tenants.ts'

const written = async ({ tenantId }: Room) =>
  (await asSuperuser('select from tenon.documents where tenant_id = $1', [tenantId])).length

describe('a run that waits', () => {
  let room: Room
  beforeAll(async () => {
    room = await aRoom()
    await publish(
      room,
      'sleeper',
      `  - sleep: { wait: { seconds: 2 } }
  - write: { call: collection.create, with: { name: done, document: { n: 1 } } }
`,
    )
  })

  test('is shown as suspended, does nothing when its time has come, and then goes on', async () => {
    const id = await start(room, 'sleeper')
    await shown(room, id, 'waiting')
    expect((await suspend(room)).body.state).toBe('suspended')
    await shown(room, id, 'suspended', 5_000)
    await new Promise((done) => setTimeout(done, 3_000))
    expect([(await runOf(room, id)).status, await written(room)]).toEqual(['suspended', 0])
    expect((await resume(room)).body.state).toBe('active')
    await shown(room, id, 'completed')
    expect(await documents(room, 'done')).toHaveLength(1)
  })
})
