/** `tenon object`: objects of a workspace, with its service key. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Command } from 'commander'
import { callerPath, serviceClient } from '../settings.ts'
import { addVerb, type Flag, printJson, printLine, printTable } from '../verb.ts'
import { downloadFile, writeObject } from './download.ts'
import { type ListedObject, listPages, nameIn, type ObjectName, objectPath } from './remote.ts'
import { type SyncOptions, sync } from './sync.ts'
import { typeOf, uploadFile, uploadStream } from './upload.ts'

interface JsonOption {
  readonly json?: boolean
}
const JSON_FLAG: Flag = ['--json', 'Print JSON.']

/** @throws Error for a bucket without a key */
function objectIn(text: string): ObjectName {
  const name = nameIn(text)
  if (name.key === '') throw new Error(`${text} names no object. Write bucket/key.`)
  return name
}

/** Prints the objects as they come; with `--json` one list. */
async function list(of: string, { recursive, json }: JsonOption & { recursive?: boolean }): Promise<number> {
  const client = await serviceClient()
  const [objects, prefixes]: [ListedObject[], string[]] = [[], []]
  for await (const page of listPages(client, nameIn(of), recursive === true ? undefined : '/')) {
    objects.push(...page.data)
    prefixes.push(...(page.prefixes ?? []))
  }
  if (json === true) return printJson({ prefixes, objects })
  const folders = prefixes.map((prefix) => ['', '', prefix])
  const rows = objects.map(({ size, last_modified, key }) => [String(size), last_modified, key])
  printTable(['bytes', 'modified', 'key'], [...folders, ...rows])
  return 0
}

async function put(to: string, file: string, { type }: { type?: string }): Promise<number> {
  const [name, client] = [objectIn(to), await serviceClient()]
  const media = type ?? typeOf(name.key)
  const stored = await (file === '-'
    ? uploadStream(client, name, process.stdin, media)
    : uploadFile(client, name, callerPath(file), media))
  return printJson(stored)
}

async function get(from: string, file = '-'): Promise<number> {
  const [name, client] = [objectIn(from), await serviceClient()]
  await (file === '-' ? writeObject(client, name) : downloadFile(client, name, callerPath(file)))
  return 0
}

/** @param verb of the API, which is that of the command line */
const rename = (verb: 'copy' | 'move') => async (from: string, to: string) => {
  const [source, target, client] = [objectIn(from), objectIn(to), await serviceClient()]
  if (source.bucket !== target.bucket)
    throw new Error(`${source.bucket} and ${target.bucket} differ. An object stays in its bucket.`)
  const body = { from: source.key, to: target.key }
  return printJson(await client.post(`/v1/buckets/${encodeURIComponent(source.bucket)}/${verb}`, body))
}

interface Removed {
  readonly removed: number
  /** Of an operation, if the objects were too many for one request. */
  readonly id?: string
  readonly finished_at?: string | null
}

const POLL_MS = 500

async function remove(of: string, { recursive }: { recursive?: boolean }): Promise<number> {
  const [name, client] = [objectIn(of), await serviceClient()]
  if (recursive !== true) {
    await client.send('DELETE', objectPath(name))
    return 0
  }
  const path = `/v1/buckets/${encodeURIComponent(name.bucket)}/delete`
  let answer = await client.post<Removed>(path, { prefix: name.key })
  const { id } = answer
  if (id !== undefined) process.stderr.write(`operation ${id}, which goes on also without this command\n`)
  while (answer.finished_at === null) {
    await pause(POLL_MS)
    answer = await client.get<Removed>(`/v1/operations/${id}`)
    if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${answer.removed} objects deleted`)
  }
  if (process.stderr.isTTY && id !== undefined) process.stderr.write('\r\u001b[K')
  printLine(`${answer.removed} objects deleted`)
  return 0
}

interface Link {
  readonly url: string
  readonly expires_at: string
}

/** Prints the URL alone, for scripts; with `--json` also when it expires. */
async function presign(
  of: string,
  { method, expires, json }: JsonOption & { method: string; expires?: string },
): Promise<number> {
  const [{ bucket, key }, client] = [objectIn(of), await serviceClient()]
  const link = await client.post<Link>(`/v1/buckets/${encodeURIComponent(bucket)}/presign`, {
    key,
    method: method.toUpperCase(),
    ...(expires !== undefined && { expires_in: Number(expires) }),
  })
  if (json === true) return printJson(link)
  printLine(link.url)
  return 0
}

const isLocal = (text: string): boolean => /^(\.{1,2}$|\.{0,2}\/)/.test(text)

async function syncFolder(from: string, to: string, options: SyncOptions): Promise<number> {
  if (isLocal(from) === isLocal(to))
    throw new Error(
      'One of the two is a folder, such as ./photos or /srv/photos, and the other bucket/prefix.',
    )
  const client = await serviceClient()
  const [folder, remote] = isLocal(from) ? [from, to] : [to, from]
  const sides = { folder: callerPath(folder), remote: nameIn(remote) }
  return sync(client, isLocal(from) ? 'up' : 'down', sides, options)
}

export function objectVerbs(program: Command): void {
  const object = program
    .command('object')
    .description('Manage objects in the workspace of TENON_SERVICE_KEY.')
  addVerb(object, 'ls <bucket/prefix>', 'List objects and folders.', list, [
    ['--recursive', 'List the objects of all folders below the prefix.'],
    JSON_FLAG,
  ])
  addVerb(
    object,
    'put <bucket/key> <file>',
    'Upload a file, or - for stdin. The upload of a file above 64 MiB resumes after a break.',
    put,
    [['--type <media type>', 'Content type of the object. Default: by the ending of the key.']],
  )
  addVerb(
    object,
    'get <bucket/key> [file]',
    'Write an object to a file, and resume after a break. Default: stdout.',
    get,
  )
  addVerb(object, 'cp <bucket/key> <bucket/new>', 'Copy an object within its bucket.', rename('copy'))
  addVerb(object, 'mv <bucket/key> <bucket/new>', 'Move an object to another key.', rename('move'))
  addVerb(object, 'rm <bucket/key>', 'Delete an object.', remove, [
    ['--recursive', 'Delete all objects whose keys begin so.'],
  ])
  addVerb(
    object,
    'presign <bucket/key>',
    'Print a link that carries one request for the object, without a key.',
    presign,
    [
      ['--method <method>', 'Request of the link: GET, PUT, or POST of a form.', 'GET'],
      ['--expires <seconds>', 'Seconds for which the link can be used, at most 604800. Default: 900.'],
      JSON_FLAG,
    ],
  )
  addVerb(
    object,
    'sync <from> <to>',
    'Make a folder (./photos) and a prefix (bucket/photos) equal, by sizes and MD5: the second becomes as the first is. Exit code 2: some transfers failed.',
    syncFolder,
    [
      ['--delete', 'Delete in the second what is not in the first.'],
      ['--dry-run', 'Print what would be done.'],
      JSON_FLAG,
    ],
  )
}
