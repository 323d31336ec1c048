/** Commands of administration: what they print for programs and for people, what they refuse, and how they end. */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CreateBucketCommand, DeleteBucketCommand } from '@aws-sdk/client-s3'
import type { Command } from 'commander'
import { beforeAll, expect, test } from 'vitest'
import { createProgram } from '../../../src/cli/program.ts'
import { operatorEnv, runCommand } from '../../support/clients/cli.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import { setPassword } from '../../support/fixtures/admins.ts'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { bucketOf, configure } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  workspace = await createTestWorkspace()
  env = operatorEnv(workspace)
})

const run = (...args: string[]) => runCommand(args, { env })
/** Runs a command that succeeds. @returns its output */
async function tenon(...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await run(...args)
  expect([args, code], stderr).toEqual([args, 0])
  return stdout
}

// biome-ignore lint/suspicious/noExplicitAny: answers of many shapes
type Json = any

async function get(path: string): Promise<Json> {
  const { status, body } = await call('GET', path, { as: workspace.operator })
  expect([path, status]).toEqual([path, 200])
  return body
}
const listed = async (path: string): Promise<Json[]> => (await get(path)).data

/** What the commands of the table are about, as they create it. */
const ids = { tenant: '', workspace: '', key: '', user: '', account: '', client: '', operation: '' }
const email = `${unique('ann')}@example.test`

interface Row {
  /** Arguments of the command, without `--json`. */
  readonly args: () => readonly string[]
  /** What the API returns of the same afterwards: one value, or the items of a list. */
  readonly api: (printed: Json) => Promise<Json>
  /** Which of `ids` the command has created. */
  readonly creates?: keyof typeof ids
  /** What has to happen before the command, and after it. */
  readonly before?: () => Promise<unknown>
  readonly after?: (printed: Json) => Promise<unknown>
}

const tenantNow = () => get(`/v1/tenants/${ids.tenant}`)
const workspaceNow = () => get(`/v1/workspaces/${ids.workspace}`)
const keyNow = () => get(`/v1/api-keys/${ids.key}`)
const userNow = () => get(`/v1/users/${ids.user}`)
const accountNow = () => get(`/v1/accounts/${ids.account}`)
const clientNow = () => get(`/v1/oauth-clients/${ids.client}`)
const servicesNow = () => get(`/v1/services?workspace_id=${ids.workspace}`)
const policyNow = () => get(`/v1/sign-in-policy?tenant_id=${ids.tenant}`)
const quotasNow = () => get(`/v1/quotas?workspace_id=${ids.workspace}`)
const operationNow = ({ id }: Json) => get(`/v1/operations/${id}`)

const inWorkspace = (...args: string[]) => [...args, '--workspace', ids.workspace]
/** Makes it one whose creation has failed. */
const fail = (noun: 'tenant' | 'workspace') =>
  asSuperuser(`update tenon.${noun}s set state = 'provisioning_failed' where id = $1`, [ids[noun]])

/** In this order. */
const ROWS: readonly (readonly [name: string, row: Row])[] = Object.entries({
  'tenant create': {
    args: () => ['--name', 'Acme', '--slug', unique('acme')],
    ...{ creates: 'tenant', api: tenantNow },
  },
  'tenant list': { args: () => [], api: async () => [await tenantNow()] },
  'tenant show': { args: () => [ids.tenant], api: tenantNow },
  'tenant update': { args: () => [ids.tenant, '--name', 'Acme Ltd'], api: tenantNow },
  'tenant suspend': { args: () => [ids.tenant, '--reason', 'unpaid'], api: tenantNow },
  'tenant resume': { args: () => [ids.tenant], api: tenantNow },
  'tenant retry': { args: () => [ids.tenant], api: tenantNow, before: () => fail('tenant') },
  'workspace create': {
    args: () => [
      ...['--tenant', ids.tenant, '--name', 'Prod', '--slug', 'prod'],
      ...['--no-bucket', '--environment', 'development'],
    ],
    ...{ creates: 'workspace', api: workspaceNow },
  },
  'workspace list': {
    args: () => ['--tenant', ids.tenant],
    api: () => listed(`/v1/workspaces?tenant_id=${ids.tenant}`),
  },
  'workspace show': { args: () => [ids.workspace], api: workspaceNow },
  'workspace update': {
    args: () => [ids.workspace, '--slug', 'live', '--environment', 'production'],
    api: workspaceNow,
  },
  'workspace suspend': { args: () => [ids.workspace, '--reason', 'unpaid'], api: workspaceNow },
  'workspace resume': { args: () => [ids.workspace], api: workspaceNow },
  'workspace data-token': {
    args: () => inWorkspace('collections:read', 'objects:read'),
    api: async () => ({
      ...{ workspace_id: ids.workspace, role: 'viewer', scopes: ['collections:read', 'objects:read'] },
    }),
  },
  'workspace retry': { args: () => [ids.workspace], api: workspaceNow, before: () => fail('workspace') },
  'tenant drift': { args: () => [ids.tenant], api: () => listed(`/v1/tenants/${ids.tenant}/drift`) },
  'workspace drift': {
    args: () => [ids.workspace],
    api: async () =>
      (await listed(`/v1/tenants/${ids.tenant}/drift`)).filter(({ target }) => target === ids.workspace),
  },
  'workspace host create': {
    args: () => inWorkspace('Api.Acme.example'),
    api: async () => (await listed(`/v1/workspaces/${ids.workspace}/hosts`))[0],
  },
  'workspace host list': {
    args: () => inWorkspace(),
    api: () => listed(`/v1/workspaces/${ids.workspace}/hosts`),
  },
  'workspace host delete': {
    args: () => inWorkspace('api.acme.example', '--yes'),
    api: async () => ({ host: 'api.acme.example', deleted: true }),
  },
  'account invite': {
    args: () => inWorkspace(email, '--role', 'workspace_admin', '--groups', 'staff'),
    ...{ creates: 'account', api: accountNow },
  },
  'account list': {
    args: () => ['--tenant', ids.tenant],
    api: () => listed(`/v1/accounts?tenant_id=${ids.tenant}`),
  },
  'account show': { args: () => [email], api: accountNow },
  'account renew': {
    args: () => [email],
    ...{ api: accountNow, after: ({ invitation_url: link }) => setPassword(link) },
  },
  'account update': {
    args: () => [ids.account, '--name', 'Ann', '--groups', 'staff', 'legal'],
    api: accountNow,
  },
  'account reset': {
    args: () => [email],
    api: accountNow,
    after: ({ reset_url: link }) => setPassword(link),
  },
  'account confirm': { args: () => [ids.account], api: accountNow },
  'account disable': { args: () => [email], api: accountNow },
  'account enable': { args: () => [email], api: accountNow },
  'account delete': { args: () => [email, '--yes'], api: async () => ({ id: ids.account, deleted: true }) },
  'sign-in-policy set': { args: () => ['--tenant', ids.tenant, '--require-mfa'], api: policyNow },
  'sign-in-policy show': { args: () => ['--tenant', ids.tenant], api: policyNow },
  'oauth-client create': {
    args: () => inWorkspace('--kind', 'machine', '--name', 'ci', '--role', 'workspace_admin'),
    ...{ creates: 'client', api: clientNow },
  },
  'oauth-client list': {
    args: () => ['--tenant', ids.tenant],
    api: () => listed(`/v1/oauth-clients?tenant_id=${ids.tenant}`),
  },
  'oauth-client show': { args: () => [ids.client], api: clientNow },
  'oauth-client rotate': { args: () => [ids.client], api: clientNow },
  'oauth-client delete': {
    args: () => [ids.client, '--yes'],
    api: async () => ({ client_id: ids.client, deleted: true }),
  },
  'key create': { args: () => inWorkspace('--kind', 'service', '--name', 'ci'), creates: 'key', api: keyNow },
  'key list': {
    args: () => inWorkspace('--status', 'active'),
    api: () => listed(`/v1/api-keys?workspace_id=${ids.workspace}&status=active`),
  },
  'key disable': { args: () => [ids.key], api: keyNow },
  'key enable': { args: () => [ids.key], api: keyNow },
  'key rotate': { args: () => [ids.key, '--grace', '60'], creates: 'key', api: keyNow },
  'key revoke': { args: () => [ids.key], api: keyNow },
  'service set': {
    args: () => inWorkspace('anon.events=none', 'auth.sign_up=invite', '{anon: {objects: public}}'),
    api: servicesNow,
  },
  'user invite': {
    args: () => inWorkspace(email, '--name', 'Uma', '--claims', '{plan: pro}'),
    ...{ creates: 'user', api: userNow },
  },
  'user list': {
    args: () => inWorkspace(),
    api: () => listed(`/v1/users?workspace_id=${ids.workspace}`),
  },
  'user show': { args: () => inWorkspace(email), api: userNow },
  'user renew': { args: () => inWorkspace(email), api: userNow },
  'user claims': { args: () => inWorkspace(email, '{plan: team}'), api: userNow },
  'user disable': { args: () => inWorkspace(email), api: userNow },
  'user enable': { args: () => inWorkspace(ids.user), api: userNow },
  'user sign-out': { args: () => inWorkspace(email), api: userNow },
  'user reset-factors': { args: () => inWorkspace(email), api: userNow },
  'user delete': { args: () => inWorkspace(email, '--data', 'delete', '--yes'), api: operationNow },
  'quota set': { args: () => inWorkspace('documents', '7'), api: quotasNow },
  'quota show': { args: () => inWorkspace(), api: quotasNow },
  'service show': { args: () => inWorkspace(), api: servicesNow },
  'workspace egress allow': {
    args: () => inWorkspace('127.0.0.1:80', '127.0.0.1:81'),
    api: async () => ({ allow: ['127.0.0.1:80', '127.0.0.1:81'] }),
  },
  'workspace egress list': { args: () => inWorkspace(), api: async () => ['127.0.0.1:80', '127.0.0.1:81'] },
  'workspace egress remove': {
    args: () => inWorkspace('127.0.0.1:80'),
    api: async () => ({ allow: ['127.0.0.1:81'] }),
  },
  'audit list': {
    args: () => ['--tenant', ids.tenant, '--outcome', 'done'],
    api: () => listed(`/v1/audit?tenant_id=${ids.tenant}&outcome=done&page[size]=200`),
  },
  'audit verify': {
    args: () => ['--tenant', ids.tenant],
    api: () => get(`/v1/audit/verify?tenant_id=${ids.tenant}`),
  },
  'workspace delete': {
    args: () => [ids.workspace, '--grace-days', '0', '--yes'],
    ...{ creates: 'operation', api: operationNow },
  },
  'operation list': { args: () => [], api: async () => [await operationNow({ id: ids.operation })] },
  'operation show': { args: () => [ids.operation], api: operationNow },
  'operation watch': { args: () => [ids.operation], api: operationNow },
  'tenant delete': { args: () => [ids.tenant], api: operationNow },
  'tenant restore': { args: () => [ids.tenant], api: tenantNow },
} satisfies Record<string, Row>)

/** Lists of the whole installation, in which other tests have theirs. */
const SHARED = ['tenant list', 'operation list']
/**
 * The first is as another command of the table; the second finds no record in the DNS of the tests, see below. Sessions and consents
 * need a person who has signed in (sessions.test.ts). Backups, restores and rotations are of a whole installation (soak/restore,
 * master-keys/rotation.test.ts).
 */
const NOT_RUN = [
  ...['backup create', 'backup follow', 'backup list', 'backup verify', 'backup prune'],
  ...['restore', 'restore finish', 'master-key new', 'master-key status', 'master-key rotate'],
  ...['workspace restore', 'workspace host verify'],
  ...['session list', 'session end', 'consent list', 'consent end'],
  ...['workspace export', 'workspace import', 'tenant export', 'tenant import'],
]
/** Besides these, commands that print a time of their own. */
const untimed = (value: Json): Json =>
  JSON.parse(JSON.stringify(value, (key, member) => (key === 'checked_at' ? undefined : member)))

/** All verbs; one that others are below has options of its own. */
const leaves = (command: Command, path = ''): [name: string, command: Command][] =>
  command.commands.flatMap((one): [string, Command][] => {
    const name = `${path}${one.name()}`
    const own: [string, Command][] = one.commands.length === 0 || one.options.length > 0 ? [[name, one]] : []
    return [...own, ...leaves(one, `${name} `)]
  })
const has = (command: Command, flag: string) => command.options.some(({ long }) => long === flag)

const NOUNS =
  /^(tenant|workspace|operation|account|session|consent|sign-in-policy|oauth-client|key|user|quota|service|audit|backup|restore|master-key)( |$)/
/** Prints JSON Lines in any case. */
const WITHOUT_JSON = ['user export']

test('commands of administration: all print JSON on request, and are in the table', () => {
  const ours = leaves(createProgram()).filter(([name]) => NOUNS.test(name))
  const withJson = ours.filter(([, command]) => has(command, '--json')).map(([name]) => name)
  expect([...withJson, ...WITHOUT_JSON].toSorted()).toEqual(ours.map(([name]) => name).toSorted())
  expect([...ROWS.map(([name]) => name), ...NOT_RUN].toSorted()).toEqual(withJson.toSorted())
})

test('commands of administration: with --json: what the API returns, one value or a line for each item', async () => {
  for (const [name, { args, api, creates, before, after }] of ROWS as readonly [string, Row][]) {
    await before?.()
    const stdout = await tenon(...name.split(' '), ...args(), '--json')
    const isList = name.endsWith(' list') || name.endsWith(' drift')
    const printed = isList
      ? stdout
          .trimEnd()
          .split('\n')
          .map((line) => JSON.parse(line))
      : JSON.parse(stdout)
    if (creates !== undefined) ids[creates] = printed.id ?? printed.client_id
    const expected = untimed(await api(printed))
    if (SHARED.includes(name)) expect(printed, name).toEqual(expect.arrayContaining(expected))
    // What is shown only once is not in later answers.
    else if (isList) expect(untimed(printed), name).toEqual(expected)
    else expect(printed, name).toMatchObject(expected)
    await after?.(printed)
  }
})

test('commands without --yes: say what they would remove, and remove nothing', async () => {
  const { operator: as, workspaceId: workspace_id, tenantId: tenant_id } = workspace
  const create = async (path: string, body: object) => (await call('POST', path, { as, body })).body
  const admin = { role: 'workspace_admin', workspace_id, tenant_id }
  const account = await create('/v1/accounts', { email: `${unique('a')}@example.test`, ...admin })
  await configure(workspace, { auth: { sign_up: 'invite' } })
  const user = await create('/v1/users', { email: `${unique('u')}@example.test`, workspace_id })
  const client = await create('/v1/oauth-clients', { kind: 'machine', name: 'CI', ...admin })
  const declaration = { collection: 'kept', store: 'relational', schema: { properties: {} } }
  const schema = await create('/v1/schemas', { workspace_id, ...declaration })
  const folder = await mkdtemp(join(tmpdir(), 'tenon-schemas-'))
  const expiring = { ...declaration, ttl: { field: '_created_at', after: '30d' } }
  await writeFile(join(folder, 'kept.json'), JSON.stringify(expiring))
  const path = `/v1/schemas/${schema.id}`
  const removals: Record<string, readonly [args: string[], path: string, said: string]> = {
    'tenant delete': [[tenant_id, '--grace-days', '0'], `/v1/tenants/${tenant_id}`, workspace_id],
    'workspace delete': [[workspace_id, '--grace-days', '0'], `/v1/workspaces/${workspace_id}`, workspace_id],
    'account delete': [[account.id], `/v1/accounts/${account.id}`, account.email],
    'user delete': [[user.email, '--data', 'delete'], `/v1/users/${user.id}`, 'objects: 0'],
    'collection drop': [['kept', '--workspace', workspace_id], path, 'the collection kept'],
    'collection truncate': [['kept', '--workspace', workspace_id], path, 'the collection kept'],
    'schema apply': [[folder, '--workspace', workspace_id], path, 'have expired are deleted'],
    'workspace host delete': [['x.example'], `/v1/workspaces/${workspace_id}`, 'host name x.example'],
    'oauth-client delete': [[client.client_id], `/v1/oauth-clients/${client.client_id}`, '“CI”'],
  }
  for (const [name, [args, kept, said]] of Object.entries(removals)) {
    const { code, stdout, stderr } = await run(...name.split(' '), ...args)
    expect([name, code, stdout], stderr).toEqual([name, 1, ''])
    expect(stderr).toContain(said)
    expect(stderr).toMatch(/^Add --yes to confirm\./m)
    expect((await get(kept)).state ?? 'there').toMatch(/^(active|there)$/)
  }
  await rm(folder, { recursive: true })
  // That of a restore has a value.
  const isConfirmed = (command: Command) =>
    command.options.some(({ long, required }) => long === '--yes' && !required)
  const confirmed = leaves(createProgram()).filter(([, command]) => isConfirmed(command))
  expect(Object.keys(removals).toSorted()).toEqual(confirmed.map(([name]) => name).toSorted())
})

test('creation that fails: exit code 1 with reason and next step; retried once the cause is gone', async () => {
  const Bucket = unique('foreign')
  await rootClient().send(new CreateBucketCommand({ Bucket }))
  const names = ['--tenant', workspace.tenantId, '--name', 'Taken', '--slug', 'taken', '--bucket', Bucket]
  const { code, stdout, stderr } = await run('workspace', 'create', ...names, '--json')
  const { id, target, state } = JSON.parse(stdout)
  expect([code, state], stderr).toEqual([1, 'failed'])
  expect(stderr).toContain(`✗ workspace.create ${target}  failed  ${id}`)
  expect(stderr).toMatch(/^conflict: The step bucket failed\./m)
  expect(stderr).toContain(`tenon workspace retry ${target}`)
  await rootClient().send(new DeleteBucketCommand({ Bucket }))
  expect(await tenon('workspace', 'retry', target)).toMatch(/^state +active$/m)
  const begun = await run('workspace', 'delete', target, '--grace-days', '0', '--yes', '--no-wait')
  expect([begun.code, begun.stderr]).toEqual([
    0,
    expect.stringMatching(/To watch it: tenon operation watch op_/),
  ])
})

test('drift: a bucket that is gone: a line with the difference and exit code 1', async () => {
  const storing = await addTestWorkspaceWithStorage(workspace)
  const Bucket = await bucketOf(storing)
  expect(await run('workspace', 'drift', storing.workspaceId)).toMatchObject({ code: 0, stdout: '' })
  await rootClient().send(new DeleteBucketCommand({ Bucket }))
  const { code, stdout } = await run('tenant', 'drift', workspace.tenantId)
  expect([code, stdout]).toEqual([
    1,
    expect.stringMatching(
      new RegExp(
        `^TARGET +RESOURCE +NAME +DIFFERENCE[^]*^${storing.workspaceId}  bucket +${Bucket}  missing +by_hand  `,
        'm',
      ),
    ),
  ])
})

test('output for people: records as lines, lists as tables, and no control characters of a tenant', async () => {
  const { workspaceId, tenantId } = await createTestWorkspace()
  const suspended = await tenon('workspace', 'suspend', workspaceId, '--reason', 'un\u009b2Jpaid')
  expect(suspended).toMatch(new RegExp(`^id {2,}${workspaceId}$`, 'm'))
  expect(suspended).toMatch(/^suspended_reason {2}un\\u009b2Jpaid$/m)
  expect(await tenon('workspace', 'list', '--tenant', tenantId)).toMatch(
    new RegExp(
      `^WORKSPACE +TENANT +SLUG +ENVIRONMENT +STATE +BUCKET +NAME\n${workspaceId}  ${tenantId}  \\S+ +production +suspended  –`,
    ),
  )
  expect(await tenon('quota', 'show', '--workspace', workspaceId)).toMatch(
    /^QUOTA +USED +LIMIT +REMAINING +RESETS AT\n(?:.*\n)*users +0 +10000 +10000 +–$/m,
  )
  const shown = await tenon('service', 'show', '--workspace', workspaceId)
  expect(shown).toMatch(/^anon\.collections +"none" +default$/m)
  const tried = await run('service', 'set', 'anon.events=none', '--workspace', workspaceId, '--dry-run')
  expect(tried.stdout).toMatch(/^SETTING +BEFORE +AFTER\nanon\.events +"workspace" +"none"\n$/)
  expect(tried.stderr).toMatch(/^Nothing was changed\./)
  expect(await tenon('service', 'show', '--workspace', workspaceId)).toBe(shown)
})

test('id of the other noun, nothing to change, a setting without a value, a host name without its record: refused with the next step', async () => {
  const { tenantId, workspaceId } = workspace
  const added = await run('workspace', 'host', 'create', 'shop.example')
  expect(added.stderr).toMatch(
    /^Create the DNS record \S+ TXT "tenon-host-proof=\S+"\. Then: tenon workspace host verify shop/,
  )
  const wrong = [
    [
      ['tenant', 'suspend', workspaceId],
      'is a workspace. Use the command of the same name below `tenon workspace`',
    ],
    [['workspace', 'delete', tenantId], 'is a tenant. Use the command of the same name below `tenon tenant`'],
    [['workspace', 'update', workspaceId], 'Add --name, --slug or --environment'],
    [['service', 'set', 'experimental'], 'Write NAME=JSON'],
    [['sign-in-policy', 'set'], 'Add --require-mfa or --no-require-mfa'],
    [['workspace', 'host', 'verify', 'shop.example'], 'DNS has no proof for shop.example'],
  ] as const
  for (const [args, said] of wrong)
    expect(await run(...args)).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining(said) })
})

test('audit verify: an altered entry: exit code 1, and which it is', async () => {
  const { tenantId, workspaceId } = await createTestWorkspace()
  await tenon('key', 'create', '--kind', 'anon', '--workspace', workspaceId)
  const anchor = JSON.parse(await tenon('audit', 'verify', '--tenant', tenantId, '--json')).head
  expect(
    await tenon('audit', 'verify', '--tenant', tenantId, '--anchor', `${anchor.seq}:${anchor.hash}`),
  ).toMatch(/^ok +true$/m)
  const { code, stderr } = await run(
    'audit',
    'verify',
    '--tenant',
    tenantId,
    '--anchor',
    `${anchor.seq}:${'0'.repeat(64)}`,
  )
  expect([code, stderr]).toEqual([
    1,
    `The audit log is not intact: entry ${anchor.seq} is invalid (anchor).\n`,
  ])
})
