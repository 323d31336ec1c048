/** Settings of the CLI: the environment, then `.env.local` of the project, whose credentials are for its own TENON_URL alone. */

import { readFile, rename, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { parseEnv } from 'node:util'
import { ApiClient, fetchToken } from './client.ts'

/** Of the file, as it was read; see {@link readSettings}. */
const OF_FILE = Symbol('of .env.local')

export type Settings = Readonly<Record<string, string | undefined>> & { readonly [OF_FILE]?: OfFile }

interface OfFile {
  /** What was taken from the file. */
  readonly used: Settings
  /** What was not, since the TENON_URL in use is not that of the file. */
  readonly withheld: Settings
}

const FILE = '.env.local'

/**
 * `NAME=value` lines, quoted or not; a value set in the environment wins. If the TENON_URL in use is of another origin than that of the
 * file, none of the file's TENON_ settings counts: its credentials and ids belong to the platform that it names.
 */
export async function readSettings(): Promise<Settings> {
  const file = await readEnvFile()
  const environment = process.env
  const url = environment['TENON_URL'] ?? file['TENON_URL']
  const isSame = url !== undefined && originOf(url) === originOf(file['TENON_URL'])
  const [used, withheld] = isSame ? [file, {}] : parted(file)
  return { ...used, ...environment, [OF_FILE]: { used, withheld } }
}

/** What is for any platform, and what is for that of the file. */
function parted(file: Settings): [Settings, Settings] {
  const isOfPlatform = ([name]: [string, unknown]) => name.startsWith('TENON_') && name !== 'TENON_URL'
  const entries = Object.entries(file)
  const others = entries.filter((entry) => !isOfPlatform(entry))
  return [Object.fromEntries(others), Object.fromEntries(entries.filter(isOfPlatform))]
}

/** Of a text that is no URL, the text itself, so that it equals nothing else. */
const originOf = (url: string | undefined): string | undefined =>
  url !== undefined && URL.canParse(url) && new URL(url).origin !== 'null' ? new URL(url).origin : url

export async function readEnvFile(): Promise<Settings> {
  return parseEnv(await readFile(FILE, 'utf8').catch(() => ''))
}

/** Replaces the file as a whole, readable by its owner only: it holds keys. */
export async function writeEnvFile(values: Settings): Promise<void> {
  const lines = Object.entries(values).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${value}\n`],
  )
  const text = `# Written by \`npm start\`. Keys of the demo workspace: keep it out of version control.\n${lines.join('')}`
  await writeFile(`${FILE}.new`, text, { mode: 0o600 })
  await rename(`${FILE}.new`, FILE)
}

/** A setting that must be there. @throws Error that says how to come by it */
export function need(settings: Settings, name: string): string {
  const value = settings[name]
  if (value) return value
  if (settings[OF_FILE]?.withheld[name]) throw new Error(refusal(settings, name))
  throw new Error(`${name} is not set. Run \`npm start\` first, or set it.`)
}

function refusal(settings: Settings, name: string): string {
  const { TENON_URL: ofFile } = settings[OF_FILE]?.used ?? {}
  const url = settings['TENON_URL']
  return ofFile === undefined
    ? `${name} of ${FILE} is not sent to ${url}: the file has no TENON_URL. Set ${name} in the environment as well, or TENON_URL in the file.`
    : `${name} of ${FILE} is for ${ofFile} alone, and TENON_URL is ${url}. Set ${name} in the environment as well, or unset TENON_URL.`
}

/** An operator's access token: given as TENON_TOKEN, or fetched with the operator client. */
async function operatorToken(settings: Settings): Promise<string> {
  if (settings['TENON_TOKEN']) return settings['TENON_TOKEN']
  // A withheld token is refused by its name, unless the environment names a client.
  if (settings[OF_FILE]?.withheld['TENON_TOKEN'] && !settings['TENON_CLIENT_ID'])
    need(settings, 'TENON_TOKEN')
  const [id, secret] = [need(settings, 'TENON_CLIENT_ID'), need(settings, 'TENON_CLIENT_SECRET')]
  return fetchToken(need(settings, 'TENON_URL'), id, secret)
}

/** A file that the caller names, from where the caller stands. */
export const callerPath = (file: string): string => resolve(process.env['TENON_CALLER_CWD'] ?? '.', file)

/** A client with the operator's rights. @param workspace the one that the verb is about, if it is about one */
export async function operatorClient(settings: Settings, workspace?: string): Promise<ApiClient> {
  return (await operatorAccess(settings, workspace)).client
}

/** The same, with the access token that the client has. */
export async function operatorAccess(
  settings: Settings,
  workspace?: string,
): Promise<{ client: ApiClient; token: string }> {
  const token = await operatorToken(settings)
  const client = new ApiClient(need(settings, 'TENON_URL'), { authorization: `Bearer ${token}` })
  const names = settings['TENON_TOKEN'] ? ['TENON_TOKEN'] : ['TENON_CLIENT_ID', 'TENON_CLIENT_SECRET']
  await announce(client, settings, names, workspace)
  return { client, token }
}

/** A client with the rights of the workspace's service key. */
export async function serviceClient(settings: Settings): Promise<ApiClient> {
  const apikey = need(settings, 'TENON_SERVICE_KEY')
  const client = new ApiClient(need(settings, 'TENON_URL'), { apikey })
  await announce(client, settings, ['TENON_SERVICE_KEY'])
  return client
}

interface Me {
  readonly roles: readonly string[]
  readonly workspace_id: string | null
}

/**
 * Says on stderr which workspace, role and platform a verb uses, unless TENON_QUIET is set.
 * @param credentials names of the settings that the client was made of
 */
async function announce(
  client: ApiClient,
  settings: Settings,
  credentials: readonly string[],
  workspace?: string,
): Promise<void> {
  if (settings['TENON_QUIET']) return
  // If it cannot be asked, the verb that follows says why.
  const me = await client.get<Me>('/v1/me').catch(() => undefined)
  if (me?.roles === undefined) return
  const place = workspace ?? me.workspace_id
  const { used } = settings[OF_FILE] ?? {}
  const isOfFile = credentials.some((name) => used?.[name] !== undefined && used[name] === settings[name])
  const parts = [
    place === null ? '' : `workspace ${place}`,
    `role ${me.roles.join(' and ') || 'none'}`,
    client.url,
    isOfFile ? `credentials of ${FILE}` : '',
  ]
  process.stderr.write(`tenon: ${parts.filter(Boolean).join(', ')}\n`)
}
