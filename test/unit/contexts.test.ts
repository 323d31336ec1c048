/** Contexts of libraries: there as long as anybody is inside, off when nobody is. */

import { AsyncLocalStorage } from 'node:async_hooks'
import { expect, test } from 'vitest'
import { restful } from '../../src/platform/contexts.ts'

const gate = () => {
  let open = () => {}
  const passed = new Promise<void>((resolve) => {
    open = resolve
  })
  return { open, passed }
}

test('the last one out switches it off', async () => {
  const storage = new AsyncLocalStorage<string>()
  const within = restful(storage)
  const [first, second, late] = [gate(), gate(), gate()]
  const seen: (string | undefined)[] = []
  const enter = (name: string, until: Promise<void>) =>
    within(() =>
      storage.run(name, async () => {
        await until
        seen.push(storage.getStore())
      }),
    )
  const one = enter('one', first.passed)
  const two = enter('two', second.passed)
  const left = storage.run('left behind', () => late.passed.then(() => storage.getStore()))
  first.open()
  await one
  second.open()
  await two
  expect(seen).toEqual(['one', 'two'])
  late.open()
  expect(await left).toBeUndefined()
})

test('it is on again for who comes later, and off where the work fails', async () => {
  const storage = new AsyncLocalStorage<string>()
  const within = restful(storage)
  await expect(within(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await within(() => storage.run('again', async () => storage.getStore()))).toBe('again')
})
