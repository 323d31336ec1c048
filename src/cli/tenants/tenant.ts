/** `tenon tenant` and `tenon workspace`: the same verbs for both, from the creation to the purge. */

import type { Command } from 'commander'
import { withQuery } from '../client.ts'
import type { Operation } from '../operations/operation-view.ts'
import { finishOperation, NO_WAIT_FLAG, type WatchOptions } from '../operations/watch-operation.ts'
import { JSON_FLAG, JSON_LINES_FLAG, type JsonOption, printPages, printRecord } from '../output.ts'
import { adminClient, readSettings, workspaceClient } from '../settings.ts'
import { addVerb, type Flag, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { removalVerbs } from './deletion.ts'
import { driftVerb } from './drift.ts'
import { hostVerbs } from './host.ts'
import { type Noun, pathOf, type Tenant, type Workspace } from './nouns.ts'
import { egressVerbs } from './service.ts'

/** Reads one as it is now: its creation may have taken longer than a token is valid. */
const readNow = (noun: Noun, id: string) => async () => (await adminClient()).get<Tenant>(pathOf(noun, id))

interface NewTenant extends WatchOptions {
  readonly name: string
  readonly slug: string
}

interface NewWorkspace extends NewTenant {
  readonly tenant?: string
  /** False with `--no-bucket`. */
  readonly bucket?: string | false
  readonly environment?: string
}

async function createTenant({ name, slug, ...options }: NewTenant): Promise<number> {
  return create('tenant', { name, slug }, options)
}

async function createWorkspace(given: NewWorkspace): Promise<number> {
  const { name, slug, tenant, bucket, environment, ...options } = given
  const tenant_id = tenant ?? (await readSettings())['TENON_TENANT_ID']
  const named = { tenant_id, name, slug, environment }
  return create('workspace', { ...named, bucket: bucket === false ? null : bucket }, options)
}

async function create(noun: Noun, body: object, options: WatchOptions): Promise<number> {
  const client = await adminClient()
  const operation = await client.post<Operation>(`/v1/${noun}s`, body)
  return finishCreation(noun, operation, options)
}

async function retry(noun: Noun, id: string, options: WatchOptions): Promise<number> {
  const client = await adminClient()
  const operation = await client.call<Operation>('POST', `${pathOf(noun, id)}/retry`)
  return finishCreation(noun, operation, options)
}

/** Prints what was created. */
function finishCreation(noun: Noun, operation: Operation, options: WatchOptions): Promise<number> {
  const { target } = operation
  return finishOperation(operation, options, {
    result: readNow(noun, target),
    nextStep: `Begin again with \`tenon ${noun} retry ${target}\`, or remove what is left with \`tenon ${noun} delete ${target}\`.`,
  })
}

async function show(noun: Noun, id: string, options: JsonOption): Promise<number> {
  return printRecord(await readNow(noun, id)(), options)
}

interface Changes extends JsonOption {
  readonly name?: string
  readonly slug?: string
  readonly environment?: string
}

async function update(noun: Noun, id: string, { json, ...changes }: Changes): Promise<number> {
  if (Object.values(changes).every((value) => value === undefined)) {
    const flags = noun === 'tenant' ? '--name or --slug' : '--name, --slug or --environment'
    throw new Error(`Nothing is to be changed. Add ${flags}.`)
  }
  const client = await adminClient()
  return printRecord(await client.call<Tenant>('PATCH', pathOf(noun, id), changes), { json })
}

interface SuspendOptions extends JsonOption {
  readonly reason?: string
}

async function suspend(noun: Noun, id: string, { json, reason }: SuspendOptions): Promise<number> {
  const client = await adminClient()
  return printRecord(await client.post<Tenant>(`${pathOf(noun, id)}/suspend`, { reason }), { json })
}

async function resume(noun: Noun, id: string, options: JsonOption): Promise<number> {
  const client = await adminClient()
  return printRecord(await client.post<Tenant>(`${pathOf(noun, id)}/resume`, {}), options)
}

/** The verbs that both nouns have, as their help says them. */
function commonVerbs(parent: Command, noun: Noun): void {
  addVerb(
    parent,
    'show <id>',
    `Print a ${noun}.`,
    (id: string, options: JsonOption) => show(noun, id, options),
    [JSON_FLAG],
  )
  addVerb(
    parent,
    'update <id>',
    noun === 'tenant'
      ? 'Update the name or the slug of a tenant. Its id stays.'
      : 'Update the name, the slug or the environment of a workspace. Its id and the name of its bucket stay.',
    (id: string, options: Changes) => update(noun, id, options),
    [
      ['--name <name>', `New name of the ${noun}.`],
      ['--slug <slug>', 'New short name.'],
      ...(noun === 'workspace' ? [['--environment <name>', ENVIRONMENTS] as const] : []),
      JSON_FLAG,
    ],
  )
  addVerb(
    parent,
    'suspend <id>',
    `Suspend a ${noun}: all its activity stops within 5 s, and no data is lost.`,
    (id: string, options: SuspendOptions) => suspend(noun, id, options),
    [['--reason <text>', `Reason of the suspension, shown with the ${noun}.`], JSON_FLAG],
  )
  addVerb(
    parent,
    'resume <id>',
    `Resume a suspended ${noun}. Its executions continue where they stopped.`,
    (id: string, options: JsonOption) => resume(noun, id, options),
    [JSON_FLAG],
  )
  addVerb(
    parent,
    'retry <id>',
    `Retry the creation of a ${noun} that has failed.`,
    (id: string, options: WatchOptions) => retry(noun, id, options),
    [NO_WAIT_FLAG, JSON_FLAG],
  )
  removalVerbs(parent, noun)
  driftVerb(parent, noun)
}

async function listTenants(options: JsonOption): Promise<number> {
  const client = await adminClient()
  return printPages(
    client.pages<Tenant>('/v1/tenants'),
    {
      TENANT: ({ id }) => id,
      SLUG: ({ slug }) => slug,
      STATE: ({ state }) => state,
      NAME: ({ name }) => name,
    },
    options,
  )
}

interface WorkspacesOptions extends JsonOption {
  readonly tenant?: string
}

async function listWorkspaces({ tenant, json }: WorkspacesOptions): Promise<number> {
  const client = await adminClient()
  return printPages(
    client.pages<Workspace>(withQuery('/v1/workspaces', { tenant_id: tenant })),
    {
      WORKSPACE: ({ id }) => id,
      TENANT: ({ tenant_id }) => tenant_id,
      SLUG: ({ slug }) => slug,
      ENVIRONMENT: ({ environment }) => environment,
      STATE: ({ state }) => state,
      BUCKET: ({ bucket }) => bucket,
      NAME: ({ name }) => name,
    },
    { json },
  )
}

interface DataToken {
  readonly token: string
  readonly expires_at: string
}

/** Prints the token alone on stdout, for a variable of a shell. */
async function dataToken(
  scopes: readonly string[],
  { workspace, json }: WorkspaceOption & JsonOption,
): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const made = await client.post<DataToken>(`${pathOf('workspace', workspace_id)}/data-token`, { scopes })
  if (json) return printRecord(made, { json })
  process.stderr.write(`The token ends at ${made.expires_at}.\n`)
  process.stdout.write(`${made.token}\n`)
  return 0
}

const ENVIRONMENTS = 'Environment of the workspace: development or production.'

const SLUG: Flag = ['--slug <slug>', 'Short name: lower-case letters, digits and -.']

export function tenantVerbs(program: Command): void {
  const tenant = program.command('tenant').description('Manage tenants.')
  addVerb(tenant, 'list', 'List tenants.', listTenants, [JSON_LINES_FLAG])
  addVerb(tenant, 'create', 'Create a tenant and print it when it is complete.', createTenant, [
    NO_WAIT_FLAG,
    JSON_FLAG,
  ])
    .requiredOption('--name <name>', 'Name of the tenant.')
    .requiredOption(SLUG[0], `${SLUG[1]} It is asked for at sign-in.`)
  commonVerbs(tenant, 'tenant')
}

export function workspaceVerbs(program: Command): void {
  const workspace = program.command('workspace').description('Manage workspaces.')
  addVerb(workspace, 'list', 'List workspaces.', listWorkspaces, [
    ['--tenant <id>', 'List only the workspaces of this tenant.'],
    JSON_LINES_FLAG,
  ])
  addVerb(
    workspace,
    'create',
    'Create a workspace with its bucket, and print it when it is complete.',
    createWorkspace,
    [
      ['--tenant <id>', 'Tenant of the workspace. Default: TENON_TENANT_ID, or your own.'],
      ['--bucket <name>', 'Name of the bucket. Default: the slug and the end of the id.'],
      ['--environment <name>', `${ENVIRONMENTS} Default: production.`],
      ['--no-bucket', 'Create no bucket: the workspace has no objects.'],
      NO_WAIT_FLAG,
      JSON_FLAG,
    ],
  )
    .requiredOption('--name <name>', 'Name of the workspace.')
    .requiredOption(...SLUG)
  commonVerbs(workspace, 'workspace')
  addVerb(
    workspace,
    'data-token <scopes...>',
    'Create a token for the data of a workspace, such as with the scopes collections:read objects:read. It acts as you for 10 minutes. Prints only the token on stdout.',
    dataToken,
    [WORKSPACE, JSON_FLAG],
  )
  egressVerbs(workspace)
  hostVerbs(workspace)
}
