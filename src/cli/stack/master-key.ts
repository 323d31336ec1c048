/** `tenon master-key status|rotate|new`: counts what depends on each master key, encrypts all of it under the first one, makes a key. */

import {
  countKeys,
  type Installed,
  type KeyUse,
  type Rotation,
  rotateMasterKey,
} from '../../app/master-keys/rotate.ts'
import { makeMasterKey } from '../../infra/crypto/key-provider.ts'
import { Database } from '../../infra/postgres/database.ts'
import { need, readSettings } from '../settings.ts'
import { dateTimeText, printJson, printLine, printTable } from '../verb.ts'
import { ownerSettings } from './owner-settings.ts'

/** Values that cannot be read, or are left under another key. */
const INCOMPLETE = 2
/** Pages are read one after the other. */
const CONNECTIONS = 2

/** @throws Error that names the next step if a setting is missing */
async function withInstalled<T>(work: (installed: Installed) => Promise<T>): Promise<T> {
  const settings = await ownerSettings()
  const masterKeys = need(settings, 'TENON_MASTER_KEY')
  const lost = (error: Error) =>
    void process.stderr.write(`The connection to PostgreSQL was lost: ${error.message}\n`)
  const database = Database.open(need(settings, 'DATABASE_URL'), lost, CONNECTIONS)
  try {
    return await work({ database, masterKeys })
  } finally {
    await database.close()
  }
}

export interface MasterKeyOptions {
  readonly json?: true
  readonly dryRun?: true
}

/** @returns the exit code: 2 if values cannot be read */
export async function printStatus({ json }: MasterKeyOptions): Promise<number> {
  const keys = await withInstalled(countKeys)
  if (json) printJson({ keys })
  else printKeys(keys)
  return keys.some(isUnreadable) ? INCOMPLETE : 0
}

const isUnreadable = ({ role, values }: KeyUse) => values > 0 && (role === 'missing' || role === 'none')

/** Tells on stderr how far it is: in lines of JSON for a program. @returns the exit code: 2 if values are left under another key */
export async function rotate({ json, dryRun: isDry }: MasterKeyOptions): Promise<number> {
  const dryRun = isDry === true
  const asJson = json === true && !process.stderr.isTTY
  const onProgress = (column: string, resealed: number) =>
    void process.stderr.write(
      asJson ? `${JSON.stringify({ column, resealed })}\n` : `${column}: ${resealed} values encrypted\n`,
    )
  const rotation = await withInstalled((installed) => rotateMasterKey(installed, { dryRun, onProgress }))
  if (json) printJson(rotation)
  else printRotation(rotation, dryRun)
  return rotation.complete || (dryRun && rotation.failed.length === 0) ? 0 : INCOMPLETE
}

function printRotation({ resealed, failed, complete, key_id, keys }: Rotation, dryRun: boolean): void {
  for (const { column, row, reason } of failed) {
    const id = Object.entries(row).map(([name, value]) => `${name} ${value}`)
    printLine(`${column}, ${id.join(', ')}: ${reason}`)
  }
  const left = keys.reduce((sum, { role, values }) => sum + (role === 'first' ? 0 : values), 0)
  if (dryRun)
    printLine(
      `${left} values would be encrypted under the key ${key_id}. ${failed.length} of them cannot be opened.`,
    )
  else printLine(`${resealed} values were encrypted under the key ${key_id}.`)
  printKeys(keys)
  if (dryRun) return
  for (const line of nextSteps(keys, complete, failed.length)) printLine(line)
}

/** What the operator does next. */
function nextSteps(keys: readonly KeyUse[], complete: boolean, failed: number): string[] {
  if (!complete && failed === 0)
    return [
      'Processes go on to write under another key: restart those that do not have this key first, and run the command again.',
    ]
  if (!complete)
    return ['The values above are left as they were. Restore or delete them, and run the command again.']
  return keys
    .filter(({ role }) => role === 'other')
    .map(({ key_id, last_ends_at: until }) =>
      until === null
        ? `No value is left under the key ${key_id}: remove it from TENON_MASTER_KEY once each process has the other one first.`
        : `No value is left under the key ${key_id} but ${KEYED_REQUESTS}, which end until ${dateTimeText(until)} UTC: remove it from TENON_MASTER_KEY after that, once each process has the other one first.`,
    )
}

const KEYED_REQUESTS = 'requests with an Idempotency-Key'

const ROLES: Readonly<Record<KeyUse['role'], string>> = {
  first: 'encrypts',
  other: 'decrypts',
  missing: 'is missing',
  none: 'not encrypted',
}

function printKeys(keys: readonly KeyUse[]): void {
  printTable(
    ['KEY', '', 'VALUES', 'ENDING', 'UNTIL'],
    keys.map(({ key_id, role, values, ending, last_ends_at: until }) => [
      ...[key_id || '–', ROLES[role], String(values), String(ending)],
      until === null ? '' : dateTimeText(until),
    ]),
  )
}

/** For KMS the key is wrapped. */
export async function printNewKey({ json }: Pick<MasterKeyOptions, 'json'>): Promise<number> {
  const master_key = await makeMasterKey(await readSettings())
  if (json) return printJson({ master_key })
  printLine(master_key)
  return 0
}
