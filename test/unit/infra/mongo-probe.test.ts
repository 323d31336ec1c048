/** Tests of what the check of a MongoDB server says of faults, on collections in memory: no server that has them is at hand. */

import { MongoNetworkError, MongoServerError } from 'mongodb'
import { expect, test } from 'vitest'
import { findServerFaults, type ProbeCollection } from '../../../src/infra/mongo/probe.ts'

/** One document in memory. @param isAtomic compares and changes in one step @param isUnique refuses a second `_id` */
function collectionOf(isAtomic: boolean, isUnique: boolean): ProbeCollection {
  const document = { _id: '', v: 0, list: [] as object[] }
  const collection = {
    insertOne: async ({ _id }: { _id: string }) => {
      if (document._id !== '' && isUnique)
        throw new MongoServerError({ message: 'duplicate key', code: 11_000 })
      document._id = _id
      return {}
    },
    updateOne: async ({ v }: { v: number }, { $set }: { $set: { v: number } }) => {
      const isFound = document.v === v
      if (!isAtomic) await Promise.resolve()
      if (isFound) document.v = $set.v
      return { matchedCount: Number(isFound) }
    },
    findOne: async () => document,
    deleteOne: async () => ({ deletedCount: 1 }),
  }
  return collection as unknown as ProbeCollection
}

test('server that compares and changes in one step: has no faults', async () => {
  expect(await findServerFaults(collectionOf(true, true))).toEqual([])
})

test('server that compares before others have changed: loses changes, and the sentence says how many were made', async () => {
  expect(await findServerFaults(collectionOf(false, true))).toEqual([
    expect.stringMatching(/^Of 8 concurrent changes .* has made 8, not one: .*Use MongoDB\.$/),
  ])
})

test('server that takes an id twice: is named', async () => {
  expect(await findServerFaults(collectionOf(true, false))).toEqual([expect.stringContaining('`_id`')])
})

const failing = (method: 'insertOne' | 'findOne', error: Error): ProbeCollection => {
  const collection = collectionOf(true, true)
  let calls = 0
  const fail = async (...args: [never]) => {
    // The first insertion makes the document.
    if (method === 'findOne' || ++calls > 1) throw error
    return collection.insertOne(...args)
  }
  return { ...collection, [method]: fail }
}

test('server that does not know an operator: is named', async () => {
  for (const code of [2, 9, 115, 238]) {
    const error = new MongoServerError({ message: '$nin is not implemented', code })
    const faults = await findServerFaults(failing('findOne', error))
    expect(faults).toEqual([expect.stringContaining('`$elemMatch`')])
  }
})

test.each(['insertOne', 'findOne'] as const)(
  '%s: fails for another reason: no fault of the server, and no proof of health',
  async (method) => {
    for (const error of [
      new MongoNetworkError('connection closed'),
      new MongoServerError({ message: 'interrupted', code: 11_601 }),
    ])
      await expect(findServerFaults(failing(method, error))).rejects.toBe(error)
  },
)
