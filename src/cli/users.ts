/** `tenon user`: the end users of a workspace. */

import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import type { Command } from 'commander'
import { JSON_NOTATION, jsonArgument } from './json-argument.ts'
import { workspaceClient } from './settings.ts'
import { addVerb, dateTimeText, printJson, printTable, WORKSPACE, type WorkspaceOption } from './verb.ts'

interface User {
  readonly id: string
  readonly email: string
  readonly name: string
  readonly status: string
  readonly claims: unknown
  readonly last_login_at: string | null
}

const pathOf = (id: string) => `/v1/users/${encodeURIComponent(id)}`

/** Finds a user by id or by e-mail address. @throws Error if the workspace has none with this address */
async function find(user: string, { workspace }: WorkspaceOption) {
  const { client, workspace_id } = await workspaceClient(workspace)
  if (!user.includes('@')) return { client, user: await client.get<User>(pathOf(user)) }
  const query = new URLSearchParams({ workspace_id, email: user })
  const [found] = await client.list<User>(`/v1/users?${query}`)
  if (found === undefined) throw new Error(`The workspace ${workspace_id} has no user ${user}.`)
  return { client, user: found }
}

async function list({ workspace, json }: WorkspaceOption & { json?: boolean }): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const users = await client.list<User>(`/v1/users?${new URLSearchParams({ workspace_id })}`)
  if (json) return printJson(users)
  const rows = users.map(({ id, email, name, status, last_login_at: at }) => [
    id,
    email,
    status,
    at === null ? '–' : dateTimeText(at),
    name,
  ])
  printTable(['USER', 'E-MAIL', 'STATUS', 'LAST SIGN-IN', 'NAME'], rows)
  return 0
}

const show = async (emailOrId: string, options: WorkspaceOption) =>
  printJson((await find(emailOrId, options)).user)

interface InviteOptions extends WorkspaceOption {
  readonly name?: string
  readonly claims?: string
}

/** Prints the user with the invitation, which is shown only once. */
async function invite(email: string, { workspace, name, claims }: InviteOptions): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const body = {
    workspace_id,
    email,
    ...(name !== undefined && { name }),
    ...(claims !== undefined && { claims: await jsonArgument(claims, 'The claims') }),
  }
  return printJson(await client.post('/v1/users', body))
}

const setDisabled = (disabled: boolean) => async (emailOrId: string, options: WorkspaceOption) => {
  const { client, user } = await find(emailOrId, options)
  return printJson(await client.call('PATCH', pathOf(user.id), { disabled }))
}

async function setClaims(emailOrId: string, claims: string, options: WorkspaceOption): Promise<number> {
  const value = await jsonArgument(claims, 'The claims')
  const { client, user } = await find(emailOrId, options)
  return printJson(await client.call('PATCH', pathOf(user.id), { claims: value }))
}

async function signOut(emailOrId: string, options: WorkspaceOption): Promise<number> {
  const { client, user } = await find(emailOrId, options)
  return printJson(await client.post(`${pathOf(user.id)}/sign-out`, {}))
}

async function resetFactors(emailOrId: string, options: WorkspaceOption): Promise<number> {
  const { client, user } = await find(emailOrId, options)
  return printJson(await client.post(`${pathOf(user.id)}/reset-factors`, {}))
}

async function remove(emailOrId: string, options: WorkspaceOption): Promise<number> {
  const { client, user } = await find(emailOrId, options)
  return printJson(await client.call('DELETE', pathOf(user.id)))
}

/** Prints one user a line. */
async function exportUsers({ workspace }: WorkspaceOption): Promise<number> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const response = await client.send('GET', `/v1/users/export?${new URLSearchParams({ workspace_id })}`)
  const body = response.body as ReadableStream | null
  if (body !== null) await pipeline(Readable.fromWeb(body), process.stdout, { end: false })
  return 0
}

export function userVerbs(program: Command): void {
  const user = program
    .command('user')
    .description('Manage end users of a workspace. <user> is an id or an e-mail address.')
  addVerb(user, 'list', 'List users.', list, [WORKSPACE, ['--json', 'Print the users as JSON.']])
  addVerb(user, 'show <user>', 'Print a user.', show, [WORKSPACE])
  addVerb(user, 'invite <email>', 'Invite a user and print the invitation.', invite, [
    WORKSPACE,
    ['--name <name>', 'Name of the user.'],
    ['--claims <json>', `Claims in tokens of the user: ${JSON_NOTATION}.`],
  ])
  addVerb(user, 'claims <user> <json>', 'Replace the claims of a user.', setClaims, [WORKSPACE])
  addVerb(
    user,
    'disable <user>',
    'Disable a user: end all sessions, and reject sign-ins.',
    setDisabled(true),
    [WORKSPACE],
  )
  addVerb(user, 'enable <user>', 'Enable a disabled user, who can sign in again.', setDisabled(false), [
    WORKSPACE,
  ])
  addVerb(user, 'sign-out <user>', 'Sign a user out everywhere.', signOut, [WORKSPACE])
  addVerb(
    user,
    'reset-factors <user>',
    'Remove the second factor and all passkeys of a user, and sign the user out everywhere.',
    resetFactors,
    [WORKSPACE],
  )
  addVerb(user, 'delete <user>', 'Delete a user. Documents and objects of the user are kept.', remove, [
    WORKSPACE,
  ])
  addVerb(user, 'export', 'Print all users as JSON Lines.', exportUsers, [WORKSPACE])
}
