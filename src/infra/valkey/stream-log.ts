/** Appends to streams, drops their oldest entries, and remembers per topic the newest entry that was dropped. */

import type { Redis, RedisOptions, Result } from 'ioredis'
import { isBefore } from '../../core/execution.ts'
import type { TenantId } from '../../core/tenant.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { connectToValkey, type ValkeyAddress } from './connect.ts'

/** A published event. Listeners filter by the fields beside the text, so that it is not parsed. */
export interface Message {
  readonly topic: string
  readonly source: string
  readonly text: string
  /** For a change: the roles that could read documents of the collection then. */
  readonly readers?: { readonly anon: boolean; readonly user: boolean }
  /** The deleted document as JSON, if rules decide who may know of it. Subscribers do not receive it. */
  readonly deleted?: string
  /** Of the change of a document that existed: what live queries need besides. Subscribers do not receive it. */
  readonly earlier?: Earlier
  /** JSON array of the subjects behind it. Subscribers do not receive it. */
  readonly causedBy?: string
}

/** A document that was changed, before the change. */
interface Earlier {
  /** When it was created, RFC 3339. */
  readonly createdAt: string
  /** JSON of its `fields` and `updated_at`, if rules decide who may read it, and it was not deleted. */
  readonly state?: string
}

/** Key of a stream. One read covers the streams of several tenants, so Valkey must be a single node, not a cluster. */
export type StreamKey = `tenon:{${TenantId}}:${string}`

/**
 * Fields of the hash beside a stream, which are no topics: when it was made, how many drops it knows, and the id up to which
 * entries of any topic may have been dropped, once the topics became too many. All other fields: topic → newest dropped id.
 */
const [MADE, COUNT, FLOOR] = ['^', '#', '*']

const LUA = `
local stream, log = KEYS[1], KEYS[2]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function make() redis.call('HSETNX', log, '${MADE}', string.format('%.0f-0', now - 1)) end
local function drop(count)
  if count <= 0 then return end
  local newest, last, from, left = {}, nil, '-', count
  while left > 0 do
    local rows = redis.call('XRANGE', stream, from, '+', 'COUNT', math.min(left, 16))
    if #rows == 0 then break end
    for _, row in ipairs(rows) do
      last = row[1]
      newest[row[2][2]] = last
    end
    from, left = '(' .. last, left - #rows
  end
  if last == nil then return end
  for topic, id in pairs(newest) do redis.call('HSET', log, topic, id) end
  redis.call('HINCRBY', log, '${COUNT}', count - left)
  if redis.call('HLEN', log) > ${INFRA_LIMITS.droppedTopicsMax} then
    local kept = redis.call('HMGET', log, '${MADE}', '${COUNT}')
    redis.call('DEL', log)
    redis.call('HSET', log, '${MADE}', kept[1] or '0-0', '${COUNT}', kept[2], '${FLOOR}', last)
  end
  redis.call('XTRIM', stream, 'MAXLEN', redis.call('XLEN', stream) - (count - left))
end`

/** ARGV: the maximum length, then for each entry the number of its fields and values, and these. Returns the last id. */
const APPEND = `${LUA}
make()
local at, max, id = 2, tonumber(ARGV[1]), nil
while at <= #ARGV do
  local words = tonumber(ARGV[at])
  id = redis.call('XADD', stream, '*', unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
local extra = redis.call('XLEN', stream) - max
if extra > max / ${INFRA_LIMITS.streamSlackParts} then drop(extra) end
return id`

const KEEP = `${LUA}
drop(redis.call('XLEN', stream) - ARGV[1])`

/** Returns the time in milliseconds, and the ids of the oldest and the newest entry. */
const LOCATE = `${LUA}
make()
local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
local last = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)[1]
return { now, first and first[1] or false, last and last[1] or false }`

/**
 * Copies a page of entries with their ids, in which a person is replaced; without a key for the copy it only counts. ARGV: the id to begin
 * after, the number, the id of the person, the new id, and another name of the person as JSON, which stands among the causes alone.
 * Returns the id of the last entry, and how often the id was found.
 */
const COPY = `
local after, count, id, new, name = unpack(ARGV)
name = string.gsub(name, '%p', '%%%0')
local function copy_page(stream, copy, from)
  local last, found = false, 0
  for _, row in ipairs(redis.call('XRANGE', stream, from == '' and '-' or '(' .. from, '+', 'COUNT', count)) do
    local fields, here = row[2], 0
    for at, value in ipairs(fields) do
      local replaced, times = string.gsub(value, id, new)
      fields[at] = replaced
      here = here + times
      if times > 0 and fields[at - 1] == 'caused_by' then fields[at] = string.gsub(replaced, name, '"' .. new .. '"') end
    end
    last, found = row[1], found + here
    if copy then redis.call('XADD', copy, last, unpack(fields)) end
  end
  return last, found
end`

const COUNT_PAGE = `${COPY}
local last, found = copy_page(KEYS[1], nil, after)
return { last, found }`

const COPY_PAGE = `${COPY}
local last = copy_page(KEYS[1], KEYS[2], after)
return { last, 0 }`

/** Puts the copy in place of the stream, with the entries that came meanwhile, and without those that were dropped. ARGV as above. */
const SWAP = `${COPY}
local stream, copy = KEYS[1], KEYS[2]
repeat
  local last = copy_page(stream, copy, after)
  after = last or after
until not last
local first = redis.call('XRANGE', stream, '-', '+', 'COUNT', 1)[1]
if not first then return { false, redis.call('DEL', copy) } end
local info, facts = redis.call('XINFO', 'STREAM', stream), {}
for at = 1, #info, 2 do facts[info[at]] = info[at + 1] end
redis.call('XTRIM', copy, 'MINID', '=', first[1])
redis.call('XSETID', copy, facts['last-generated-id'], 'ENTRIESADDED', facts['entries-added'],
  'MAXDELETEDID', facts['max-deleted-entry-id'])
redis.call('RENAME', copy, stream)
return { false, 0 }`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    appendEntries(
      stream: string,
      log: string,
      lengthMax: number,
      ...words: (string | number)[]
    ): Result<string | null, Context>
    keepNewest(stream: string, log: string, length: number): Result<null, Context>
    locateStream(
      stream: string,
      log: string,
    ): Result<[nowMs: number, first: string | null, last: string | null], Context>
    countPage(...page: Page): Result<PageEnd, Context>
    copyPage(...page: Page): Result<PageEnd, Context>
    swapStream(...page: Page): Result<PageEnd, Context>
  }
}

type Page = [stream: string, copy: string, after: string, count: number, id: string, to: string, name: string]
type PageEnd = [last: string | null, found: number]

const SCRIPTS = {
  appendEntries: { lua: APPEND, numberOfKeys: 2 },
  keepNewest: { lua: KEEP, numberOfKeys: 2 },
  locateStream: { lua: LOCATE, numberOfKeys: 2 },
  countPage: { lua: COUNT_PAGE, numberOfKeys: 2 },
  copyPage: { lua: COPY_PAGE, numberOfKeys: 2 },
  swapStream: { lua: SWAP, numberOfKeys: 2 },
} as const

type ConnectionOptions = Pick<
  RedisOptions,
  'maxRetriesPerRequest' | 'connectTimeout' | 'commandTimeout' | 'retryStrategy'
>

/** A connection that has the scripts of this module. */
export const connectToStreams = (at: ValkeyAddress | string, options: ConnectionOptions): Redis =>
  connectToValkey(at, { lazyConnect: true, ...options, scripts: SCRIPTS })

export const logOf = (key: StreamKey): string => `${key}:dropped`

/** Notes that a stream has no entries from before a time, so that readers who come with an earlier position get a gap. */
export const forgetBefore = (redis: Redis, key: StreamKey, ms: number): Promise<number> =>
  redis.hset(logOf(key), MADE, `${ms - 1}-0`)

/** Entries that one script reads: so long does the server serve nobody else. */
const PAGE_ENTRIES = 256

/** A person in events: the id, and a name that stands beside it among the causes of an event. */
export interface Renaming {
  readonly id: string
  readonly name: string
  /** The id instead of both. */
  readonly to: string
}

/** Replaces a person in all entries of a stream, by a copy that takes its place at once. A copy that was cut off is begun anew. */
export async function renameInStream(
  redis: Redis,
  key: StreamKey,
  { id, name, to }: Renaming,
): Promise<void> {
  const copy = `${key}:copy`
  const pageAfter = (after: string): Page => [key, copy, after, PAGE_ENTRIES, id, to, JSON.stringify(name)]
  let found = 0
  for (let after: string | null = ''; after !== null; ) {
    const [last, more]: PageEnd = await redis.countPage(...pageAfter(after))
    found += more
    after = last
  }
  if (found === 0) return
  await redis.unlink(copy)
  let copied = ''
  for (let last: string | null = ''; last !== null; ) {
    copied = last
    ;[last] = await redis.copyPage(...pageAfter(copied))
  }
  await redis.swapStream(...pageAfter(copied))
}

/** Messages for one stream, and how many entries it may keep. */
export interface Addition {
  readonly key: StreamKey
  readonly messages: readonly Message[]
  readonly lengthMax: number
}

/**
 * Appends all messages in order, or none if the server has no memory. One script costs half as much as single commands.
 * @returns the last id
 */
export const appendEntries = (redis: Redis, addition: Addition): Promise<string | null> =>
  redis.appendEntries(...argumentsOf(addition))

/** Arguments of EVAL that do the same. With the text, since a script that the server has forgotten would be sent again after the pipeline. */
export const appendingScript = (addition: Addition) => [APPEND, 2, ...argumentsOf(addition)] as const

function argumentsOf({ key, messages, lengthMax }: Addition) {
  const words = messages.flatMap((message): (string | number)[] => {
    const fields = fieldsOf(message)
    return [fields.length, ...fields]
  })
  return [key, logOf(key), lengthMax, ...words] as const
}

/** `topic` comes first: the scripts read it there. */
function fieldsOf({ topic, source, text, readers, deleted, causedBy, earlier }: Message): string[] {
  const fields = ['topic', topic, 'source', source, 'event', text, 'caused_by', causedBy ?? '']
  if (readers !== undefined) fields.push('readers', readersText(readers, earlier))
  if (deleted !== undefined) fields.push('deleted', deleted)
  return fields
}

type ReaderFlags = NonNullable<Message['readers']>
const READER_NAMES = ['anon', 'user'] as const
const CREATED = 'created='

/** Stands for a blank in the JSON of a state, in which no text contains it as it is: so the JSON is written without being parsed. */
const BLANK = '\t'

/**
 * Words with blanks between: the roles, the time at which the document was created, and its state before, which has tabs for blanks.
 * All in one field, since builds of 0.1.0 read fields by their place: these find the roles among the words.
 */
function readersText(readers: ReaderFlags, earlier: Earlier | undefined): string {
  const words: string[] = READER_NAMES.filter((name) => readers[name])
  if (earlier === undefined) return words.join(' ')
  const { createdAt, state } = earlier
  words.push(`${CREATED}${createdAt}`)
  if (state !== undefined) words.push(state.replaceAll(' ', BLANK))
  return words.join(' ')
}

export function readReaders(text: string): Pick<Message, 'earlier'> & { readonly readers: ReaderFlags } {
  const words = text.split(' ')
  const readers = { anon: words.includes('anon'), user: words.includes('user') }
  const createdAt = words.find((word) => word.startsWith(CREATED))?.slice(CREATED.length)
  if (createdAt === undefined) return { readers }
  const state = words.find((word) => word.startsWith('{'))?.replaceAll(BLANK, ' ')
  return { readers, earlier: { createdAt, ...(state !== undefined && { state }) } }
}

/** The topics of which entries were dropped; `any` if it is not known which. */
export type DroppedTopics = ReadonlySet<string> | 'any'

/** True if entries of a topic that is accepted may have been dropped. @param dropped undefined if none were */
export const mayHaveDropped = (
  dropped: DroppedTopics | undefined,
  accepts: (topic: string) => boolean,
): boolean => dropped !== undefined && (dropped === 'any' || [...dropped].some(accepts))

/** The state of a stream and its log at one time. */
export interface StreamFacts {
  readonly log: Readonly<Record<string, string>>
  /** How many entries were ever added, and how many are left. */
  readonly added: number
  readonly length: number
  /** Id of the oldest entry. */
  readonly first: string | undefined
}

/**
 * The topics of which entries after an id were dropped; undefined if there are none.
 * @param isFirst the id lies before all streams, so it is a position in each
 */
export function droppedAfter(after: string, isFirst: boolean, facts: StreamFacts): DroppedTopics | undefined {
  const { log, added, length, first } = facts
  const { [MADE]: made, [COUNT]: count = '0', [FLOOR]: floor, ...newest } = log
  if (!isFirst && made !== undefined && isBefore(after, made)) return 'any'
  if (first !== undefined && !isBefore(after, first)) return undefined
  // Entries that disappeared by other means than the scripts above.
  if (added - length > Number(count)) return 'any'
  if (floor !== undefined && isBefore(after, floor)) return 'any'
  const topics = Object.keys(newest).filter((topic) => isBefore(after, newest[topic] ?? after))
  return topics.length === 0 ? undefined : new Set(topics)
}
