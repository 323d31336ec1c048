/** `tenon master-key rotate` and what interrupts it: kills, wrong keys, broken values, concurrent writers and rotations. */

import { randomBytes } from 'node:crypto'
import type { Client } from 'pg'
import { expect, test } from 'vitest'
import { countKeys, type KeyUse, rotateMasterKey } from '../../../src/app/master-keys/rotate.ts'
import { SEALED_COLUMNS } from '../../../src/app/master-keys/sealed-columns.ts'
import { masterKeyOf } from '../../../src/infra/crypto/master-keys.ts'
import { Secrets } from '../../../src/infra/crypto/secrets.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import { keyChecksOf } from '../../../src/infra/postgres/installation.ts'
import { runCommand } from '../../support/clients/cli.ts'
import { expectReadable, OTHER_COLUMNS, writeSealedRows } from '../../support/fixtures/sealed-rows.ts'
import { asSuperuser, eventually, unique } from '../../support/fixtures/tenants.ts'
import { migrateHere, withDatabase } from '../../support/stack/own-database.ts'

const newKey = () => randomBytes(32).toString('base64')
const [OLD, NEW] = [newKey(), newKey()]
const [OLD_ID, NEW_ID] = [OLD, NEW].map((key) => masterKeyOf(Buffer.from(key, 'base64')).id) as [
  string,
  string,
]
const BOTH = `${NEW},${OLD}`

interface Own {
  readonly url: string
  readonly client: Client
  readonly database: Database
}

/** A migrated database under the old key. */
const withInstallation = (work: (own: Own) => Promise<void>) =>
  withDatabase(async ({ url, client }) => {
    await migrateHere(url, OLD)
    const database = Database.open(url, () => {}, 2)
    try {
      await work({ url, client, database })
    } finally {
      await database.close()
    }
  })

const valuesOf = (keys: readonly KeyUse[], id: string) => keys.find(({ key_id }) => key_id === id)?.values
const environment = (url: string, TENON_MASTER_KEY: string) => ({
  ...process.env,
  DATABASE_URL: url,
  TENON_MASTER_KEY,
})
const checkOf = async (client: Client) =>
  (await client.query('select key_check, replaced_keys from public.tenon_installation')).rows[0]

test('rotation: values in every listed column: all open under the new key alone, and the old one may be removed', async () => {
  await withInstallation(async ({ url, client, database }) => {
    const written = await writeSealedRows(client, OLD, ['a', 'b', 'c'])
    const covered = new Set([...written.map(({ column }) => column), ...OTHER_COLUMNS])
    expect([...covered].sort()).toEqual(
      SEALED_COLUMNS.map(({ table, column }) => `${table}.${column}`).sort(),
    )

    const dry = await runCommand(['master-key', 'rotate', '--dry-run'], { env: environment(url, BOTH) })
    expect([dry.code, dry.stdout.split('\n')[0]]).toEqual([
      0,
      `33 values would be encrypted under the key ${NEW_ID}. 0 of them cannot be opened.`,
    ])
    await expectReadable(client, OLD, written)

    const ended = await runCommand(['master-key', 'rotate'], { env: environment(url, BOTH) })
    // How far it is, also where no terminal is.
    expect(ended.stderr).toMatch(/^flow_secrets\.sealed: [0-9]+ values encrypted$/m)
    expect([ended.code, ended.stdout.split('\n')[0]]).toEqual([
      0,
      `33 values were encrypted under the key ${NEW_ID}.`,
    ])
    expect(ended.stdout).toMatch(
      `No value is left under the key ${OLD_ID} but requests with an Idempotency-Key, which end until `,
    )
    await expectReadable(client, NEW, written)
    // The setting around a secret is as it was.
    const { rows } = await client.query(
      "select auth - 'providers' as rest, auth #> '{providers,0}' as open from tenon.services limit 1",
    )
    expect(rows).toEqual([
      { rest: { sign_up: 'open' }, open: expect.objectContaining({ id: 'open', name: 'Corp' }) },
    ])
    expect(await checkOf(client)).toEqual({ key_check: keyChecksOf(NEW)[0], replaced_keys: [OLD_ID] })

    const keys = await countKeys({ database, masterKeys: NEW })
    expect(keys.map(({ key_id, role, values, ending }) => [key_id, role, values, ending])).toEqual([
      [NEW_ID, 'first', 33, 0],
      [OLD_ID, 'missing', 0, 3],
    ])
    await client.query("update tenon.idempotency set expires_at = now() - interval '1 second'")
    const last = await runCommand(['master-key', 'rotate', '--json'], { env: environment(url, BOTH) })
    expect(JSON.parse(last.stdout)).toMatchObject({ key_id: NEW_ID, resealed: 0, failed: [], complete: true })
  })
})

test('rotation with --json: tells how far it is in lines of JSON on stderr, and the result alone on stdout', async () => {
  await withInstallation(async ({ url, client }) => {
    await writeSealedRows(client, OLD, ['a', 'b'])
    const { stdout, stderr } = await runCommand(['master-key', 'rotate', '--json'], {
      env: environment(url, BOTH),
    })
    const { resealed } = JSON.parse(stdout)
    const progress = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(progress.map(({ column }) => column)).toContain('api_keys.secret')
    expect([progress.at(-1).resealed, resealed]).toEqual([22, 22])
  })
})

test('rotation killed at every page: the next one goes on, and at the end all values open', async () => {
  await withInstallation(async ({ client, database }) => {
    const written = await writeSealedRows(client, OLD, ['a', 'b'])
    const total = 22
    let resealed = 0
    for (let kills = 0; ; kills += 1) {
      // A killed process leaves whole pages: each is a transaction.
      let before = 0
      const ended = await rotateMasterKey(
        { database, masterKeys: BOTH },
        {
          onProgress: (_column, all) => {
            before = all
            throw new Error('killed')
          },
        },
      ).catch(() => undefined)
      resealed += before
      if (ended !== undefined) {
        expect(ended).toMatchObject({ complete: true, failed: [] })
        expect([kills, resealed]).toEqual([SEALED_COLUMNS.filter(({ reseal }) => reseal).length, total])
        break
      }
      const keys = await countKeys({ database, masterKeys: BOTH })
      expect([valuesOf(keys, NEW_ID), valuesOf(keys, OLD_ID)]).toEqual([resealed, total - resealed])
      await expectReadable(client, BOTH, written)
      expect((await checkOf(client)).key_check).toBe(keyChecksOf(OLD)[0])
    }
    await expectReadable(client, NEW, written)
  })
})

test('rotation of more rows than a page, by two commands at once: each value is encrypted once', async () => {
  await withInstallation(async ({ url, client, database }) => {
    const sealed = new Secrets(OLD).seal('issuer-state', Buffer.from('{}'))
    await client.query(
      `insert into tenon.issuer_state (id, model, sealed, expires_at)
       select sha256(n::text::bytea), 'Grant', $1, now() + interval '1 day' from generate_series(1, 1300) n`,
      [sealed],
    )
    const other = Database.open(url, () => {}, 2)
    const both = await Promise.all(
      [database, other].map((each) => rotateMasterKey({ database: each, masterKeys: BOTH })),
    )
    await other.close()
    expect(both.map(({ complete }) => complete)).toEqual([true, true])
    expect((both[0]?.resealed ?? 0) + (both[1]?.resealed ?? 0)).toBe(1_300)
    expect(valuesOf(both[0]?.keys ?? [], NEW_ID)).toBe(1_300)
  })
})

test('value that is replaced between its reading and its encryption: the replacement stays, and is encrypted', async () => {
  await withInstallation(async ({ url, client, database }) => {
    const written = await writeSealedRows(client, OLD, ['a'])
    const secret = written.find(({ column }) => column === 'flow_secrets.sealed')
    if (secret === undefined) throw new Error('no secret was written')
    const sealed = new Secrets(OLD).seal(secret.purpose, Buffer.from('replaced'))
    await client.query('begin')
    await client.query("update tenon.flow_secrets set sealed = $1 where name = 'a'", [sealed])
    const rotation = rotateMasterKey({ database, masterKeys: BOTH })
    const name = new URL(url).pathname.slice(1)
    await eventually(async () => {
      const waiting = await asSuperuser(
        `select from pg_stat_activity where datname = $1 and wait_event_type = 'Lock'`,
        [name],
      )
      return waiting.length > 0 ? true : undefined
    })
    await client.query('commit')
    expect(await rotation).toMatchObject({ complete: true, resealed: 11 })
    await expectReadable(client, NEW, [{ ...secret, plain: 'replaced' }])
  })
})

test('rotation without the key of the installation: refused with the next step, and nothing is changed', async () => {
  await withInstallation(async ({ url, client }) => {
    const written = await writeSealedRows(client, OLD, ['a'])
    for (const wrong of [NEW, `${NEW},${newKey()}`]) {
      const refused = await runCommand(['master-key', 'rotate'], { env: environment(url, wrong) })
      expect([refused.code, refused.stdout]).toEqual([1, ''])
      expect(refused.stderr).toMatch(/^TENON_MASTER_KEY is not the key of this installation: .* Set the key/)
    }
    await expectReadable(client, OLD, written)
    expect(await checkOf(client)).toEqual({ key_check: keyChecksOf(OLD)[0], replaced_keys: [] })
  })
})

test('rotation by a role that is no superuser, and has what tenon_owner has: done', async () => {
  await withInstallation(async ({ url, client }) => {
    const written = await writeSealedRows(client, OLD, ['a'])
    const name = unique('owner').replaceAll('-', '_')
    await asSuperuser(`create role ${name} login password 'secret'`)
    try {
      await asSuperuser(`grant tenon_owner to ${name}`)
      const own = Object.assign(new URL(url), { username: name, password: 'secret' }).href
      const ended = await runCommand(['master-key', 'rotate', '--json'], { env: environment(own, BOTH) })
      expect([ended.code, ended.stderr]).toEqual([0, expect.not.stringContaining('lost')])
      expect(JSON.parse(ended.stdout)).toMatchObject({ resealed: 11, complete: true })
      await expectReadable(client, NEW, written)
    } finally {
      await asSuperuser(`drop role ${name}`)
    }
  })
})

test('values that cannot be opened: named by table and row, left as they are, all others are encrypted; exit code 2 until they are gone', async () => {
  await withInstallation(async ({ url, client }) => {
    const written = await writeSealedRows(client, OLD, ['a', 'b'])
    const lost = newKey()
    const lostId = masterKeyOf(Buffer.from(lost, 'base64')).id
    await client.query("update tenon.flow_secrets set sealed = $1 where name = 'a'", [
      new Secrets(lost).seal('x', Buffer.from('x')),
    ])
    await client.query("update tenon.second_factors set sealed = sealed || '\\x00' where user_id = 'usr_a'")
    await client.query("update tenon.signing_keys set sealed = 'text' where id = 'a'")
    await client.query("update tenon.chain_checkpoints set signature = 'text' where tenant_id = 'ten_a'")
    const ended = await runCommand(['master-key', 'rotate'], { env: environment(url, BOTH) })
    // How far it is, also where no terminal is.
    expect(ended.stderr).toMatch(/^flow_secrets\.sealed: [0-9]+ values encrypted$/m)
    expect(ended.code).toBe(2)
    expect(ended.stdout).toContain(
      `flow_secrets.sealed, tenant_id ten_01h455vb4pex5vsknk084sn02q, workspace_id ws_01h455vb4pex5vsknk084sn02q, name a: The value was encrypted with the master key ${lostId}, which is missing`,
    )
    expect(ended.stdout).toContain(
      'second_factors.sealed, subject_id usr_a: The value was changed after it was encrypted',
    )
    expect(ended.stdout).toContain(
      'signing_keys.sealed, id a: The value is not one that the platform has encrypted.',
    )
    expect(ended.stdout).toContain(
      'chain_checkpoints.signature, tenant_id ten_a, workspace_id , chain audit: The checkpoint was not signed',
    )
    expect(ended.stdout).toMatch('18 values were encrypted under the key')
    expect((await checkOf(client)).key_check).toBe(keyChecksOf(OLD)[0])
    const broken = [/name = 'a'/, /usr_a/, /signing_keys where id = 'a'/]
    await expectReadable(
      client,
      NEW,
      written.filter(({ select }) => !broken.some((one) => one.test(select))),
    )
    const status = await runCommand(['master-key', 'status'], { env: environment(url, BOTH) })
    expect([status.code, status.stdout]).toEqual([2, expect.stringMatching(`${lostId} +is missing +1`)])

    await client.query("delete from tenon.flow_secrets where name = 'a'")
    await client.query("delete from tenon.second_factors where user_id = 'usr_a'")
    await client.query("delete from tenon.signing_keys where id = 'a'")
    await client.query('alter table tenon.chain_checkpoints disable trigger user')
    await client.query("delete from tenon.chain_checkpoints where tenant_id = 'ten_a'")
    expect((await runCommand(['master-key', 'rotate'], { env: environment(url, BOTH) })).code).toBe(0)
    expect((await checkOf(client)).key_check).toBe(keyChecksOf(NEW)[0])
  })
})

test('process that writes under the old key meanwhile: its values are encrypted in a later pass, or the command says that it goes on', async () => {
  await withInstallation(async ({ client, database }) => {
    await writeSealedRows(client, OLD, ['a', 'b'])
    const old = new Secrets(`${OLD},${NEW}`)
    const write = (name: string) =>
      client.query(
        `insert into tenon.signing_keys (id, sealed) values ($1, $2) on conflict (id) do update set sealed = excluded.sealed`,
        [name, old.seal('signing-key', Buffer.from(name))],
      )
    let writes = 0
    const once = await rotateMasterKey(
      { database, masterKeys: BOTH },
      {
        onProgress: (column) => {
          if (column !== 'idempotency.reply' || writes > 0) return
          writes += 1
          void write('late')
        },
      },
    )
    expect([writes, once.complete, once.resealed]).toEqual([1, true, 23])
    expect(valuesOf(once.keys, OLD_ID)).toBe(0)

    await write('again')
    // Each pass finds another value.
    const always = await rotateMasterKey(
      { database, masterKeys: BOTH },
      { onProgress: () => void write('again') },
    )
    expect([always.complete, always.failed]).toEqual([false, []])
    expect((await checkOf(client)).key_check).toBe(keyChecksOf(NEW)[0])
  })
})
