/** Checks that a server of the MongoDB protocol decides concurrent changes of a document one after the other. */

import { randomUUID } from 'node:crypto'
import { type Collection, MongoServerError } from 'mongodb'

interface ProbeDocument {
  readonly _id: string
  readonly v: number
  readonly list: readonly object[]
}
/** What the check needs of the driver. */
export type ProbeCollection = Pick<
  Collection<ProbeDocument>,
  'insertOne' | 'updateOne' | 'findOne' | 'deleteOne'
>

const WRITERS = 8
const ROUNDS = 3

/** @returns a sentence for each fault of the server @throws the error of the driver if it does not answer, or not with a fault */
export async function findServerFaults(collection: ProbeCollection): Promise<string[]> {
  const _id = `probe:${randomUUID()}`
  await collection.insertOne({ _id, v: 0, list: [{ a: 1, b: 1 }] })
  try {
    const faults = [
      await lostChanges(collection, _id),
      await doubleIds(collection, _id),
      await elementFilters(collection, _id),
    ]
    return faults.filter((fault) => fault !== undefined)
  } finally {
    await collection.deleteOne({ _id })
  }
}

/** Of concurrent writers that name one version, one may succeed. */
async function lostChanges(collection: ProbeCollection, _id: string): Promise<string | undefined> {
  for (let v = 0; v < ROUNDS; v++) {
    const writers = Array.from({ length: WRITERS }, () =>
      collection.updateOne({ _id, v }, { $set: { v: v + 1 } }),
    )
    const made = (await Promise.all(writers)).filter(({ matchedCount }) => matchedCount === 1).length
    if (made !== 1)
      return `Of ${WRITERS} concurrent changes of one version of a document the server has made ${made}, not one: it loses changes that it has acknowledged. Use MongoDB.`
  }
  return undefined
}

async function doubleIds(collection: ProbeCollection, _id: string): Promise<string | undefined> {
  const second = await collection.insertOne({ _id, v: 0, list: [] }).catch(refusedWith(DUPLICATE_KEY))
  if (second === undefined) return undefined
  return 'The server takes two documents with one `_id`: a repeated create makes a second document. Use MongoDB.'
}

async function elementFilters(collection: ProbeCollection, _id: string): Promise<string | undefined> {
  const filter = { _id, list: { $elemMatch: { a: 1, b: { $nin: [2] } } } }
  const found = await collection.findOne(filter).catch(refusedWith(...UNKNOWN_OPERATOR))
  if (found !== undefined && found !== null) return undefined
  return 'The server does not know `$elemMatch` with several conditions: the filters `cd`, and `cs` with objects, fail.'
}

const DUPLICATE_KEY = 11_000
/** BadValue, FailedToParse, CommandNotSupported, NotImplemented. */
const UNKNOWN_OPERATOR = [2, 9, 115, 238]

/** Takes an answer of the server with one of these codes as undefined. A lost connection says nothing about the server. */
function refusedWith(...codes: number[]): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof MongoServerError && codes.includes(Number(error.code))) return undefined
    throw error
  }
}
