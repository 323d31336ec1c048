/** What the CLI knows of its surroundings: the environment, then `.env.local` of the project. */

import { readFile, rename, writeFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { ApiClient, fetchToken } from './client.ts'

export type Settings = Readonly<Record<string, string | undefined>>

const FILE = '.env.local'

/** `NAME=value` lines; a value set in the environment wins. */
export async function readSettings(): Promise<Settings> {
  return { ...(await readEnvFile()), ...process.env }
}

export async function readEnvFile(): Promise<Settings> {
  const text = await readFile(FILE, 'utf8').catch(() => '')
  const lines = text.split('\n').map((line) => /^([A-Z][A-Z0-9_]*)=(.*)$/.exec(line.trim()))
  return Object.fromEntries(lines.flatMap((match) => (match ? [[match[1] ?? '', match[2]]] : [])))
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
  if (value === undefined || value === '')
    throw new Error(`${name} is not set. Run \`npm start\` first, or set it.`)
  return value
}

/** An operator's access token: given as TENON_TOKEN, or fetched with the operator client. */
export async function operatorToken(settings: Settings): Promise<string> {
  if (settings['TENON_TOKEN']) return settings['TENON_TOKEN']
  const [id, secret] = [need(settings, 'TENON_CLIENT_ID'), need(settings, 'TENON_CLIENT_SECRET')]
  return fetchToken(need(settings, 'TENON_URL'), id, secret)
}

/** A file that the caller names, from where the caller stands. */
export const callerPath = (file: string): string => resolve(process.env['TENON_CALLER_CWD'] ?? '.', file)

/** A client with the operator's rights. */
export async function operatorClient(settings: Settings): Promise<ApiClient> {
  const authorization = `Bearer ${await operatorToken(settings)}`
  return new ApiClient(need(settings, 'TENON_URL'), { authorization })
}

/** A client with the rights of the workspace's service key. */
export function serviceClient(settings: Settings): ApiClient {
  return new ApiClient(need(settings, 'TENON_URL'), { apikey: need(settings, 'TENON_SERVICE_KEY') })
}
