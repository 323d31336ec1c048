/** References as a naive model follows them: it reads all documents, and every condition is a function of one of them. */

import type { Random } from '../../support/random.ts'
import { type Doc, someDocuments } from './aggregate-model.ts'

export type Kind = 'authors' | 'posts' | 'comments'
export const KINDS: readonly Kind[] = ['authors', 'posts', 'comments']

/** A document as it is stored, with an id that is the same everywhere. */
export interface Stored extends Doc {
  readonly id: string
  readonly n?: number
  readonly hidden: boolean
  readonly [field: string]: unknown
}
export type All = Readonly<Record<Kind, readonly Stored[]>>
/** The documents that a caller may read. */
export type Sees = (document: Stored) => boolean

interface Link {
  readonly to: Kind
  readonly field: string
}
/** References by their names: those of a document, and those that lead to it. */
export const ONE: Readonly<Record<Kind, Readonly<Record<string, Link>>>> = {
  authors: { friend: { to: 'authors', field: 'friend_id' } },
  posts: { author: { to: 'authors', field: 'author_id' } },
  comments: { post: { to: 'posts', field: 'post_id' }, by: { to: 'authors', field: 'by_id' } },
}
export const MANY: Readonly<Record<Kind, Readonly<Record<string, Link>>>> = {
  authors: {
    friends: { to: 'authors', field: 'friend_id' },
    posts: { to: 'posts', field: 'author_id' },
    said: { to: 'comments', field: 'by_id' },
  },
  posts: { comments: { to: 'comments', field: 'post_id' } },
  comments: {},
}

const pick = <T>(random: Random, of: readonly T[]): T => of[random(of.length)] as T
const idOf = (random: Random, nth: number) =>
  `${random(2 ** 32)
    .toString(16)
    .padStart(8, '0')}-0000-7000-8000-${String(nth).padStart(12, '0')}`

/** Documents of each kind. Those of `gone` are deleted after they were referred to. */
export function someData(random: Random): { readonly all: All; readonly gone: All } {
  let nth = 0
  const some = (count: number, links: Readonly<Record<string, readonly { id: string }[]>>): Stored[] =>
    someDocuments(random, count).map((document) => {
      nth += 1
      const id = idOf(random, nth)
      const referring = Object.entries(links).flatMap(([field, to]) => {
        const target = random(5) === 0 || to.length === 0 ? undefined : pick(random, to).id
        // Ids are compared without their case.
        return target === undefined ? [] : [[field, random(4) === 0 ? target.toUpperCase() : target]]
      })
      const own = { id, hidden: random(4) === 0, ...(random(6) > 0 && { n: random(5) }) }
      return { ...document, ...own, ...Object.fromEntries(referring) }
    })
  const first = some(6, {})
  const authors = [...first, ...some(6, { friend_id: first })]
  const posts = some(24, { author_id: authors })
  const comments = some(36, { post_id: posts, by_id: authors })
  const gone = { authors: authors.slice(4, 6), posts: posts.slice(0, 3), comments: [] }
  return { all: { authors, posts, comments }, gone }
}

/** What is there once some documents are deleted. */
export const without = (all: All, gone: All): All => ({
  authors: all.authors.filter((one) => !gone.authors.includes(one)),
  posts: all.posts.filter((one) => !gone.posts.includes(one)),
  comments: all.comments.filter((one) => !gone.comments.includes(one)),
})

const refersTo = (document: Stored, { field }: Link, { id }: Stored) =>
  String(document[field] ?? '').toLowerCase() === id

/** A condition as the URL writes it: `name=rest`, or inside of parentheses `name.rest`. */
interface Condition {
  readonly name: string
  readonly rest: string
  readonly holds: (document: Stored) => boolean
}

interface World {
  readonly all: All
  readonly sees: Sees
}

const there = (value: unknown) => value !== undefined && value !== null

function ownCondition(random: Random): Condition {
  const bound = random(5)
  const known = ({ n }: Stored) => typeof n === 'number'
  return pick<Condition>(random, [
    { name: 'n', rest: `eq.${bound}`, holds: ({ n }) => n === bound },
    { name: 'n', rest: `not.eq.${bound}`, holds: (one) => known(one) && one.n !== bound },
    { name: 'n', rest: `gt.${bound}`, holds: (one) => known(one) && Number(one.n) > bound },
    { name: 'n', rest: 'is.null', holds: (one) => !known(one) },
    { name: 'status', rest: 'in.(open,paid)', holds: ({ status }) => status === 'open' || status === 'paid' },
    { name: 'status', rest: 'not.is.null', holds: ({ status }) => there(status) },
  ])
}

/** @param hops references that it may lead over */
function someCondition(random: Random, kind: Kind, hops: number, world: World): Condition {
  const ones = Object.entries(ONE[kind])
  const manys = Object.entries(MANY[kind])
  const form = hops === 0 ? 0 : random(4)
  if (form === 1 && ones.length > 0) {
    const [name, link] = pick(random, ones)
    const next = hops > 1 && random(2) === 0 ? Object.entries(ONE[link.to])[0] : undefined
    const inner = ownCondition(random)
    const leadsTo = (document: Stored, to: Link, holds: Condition['holds']) =>
      world.all[to.to].some((other) => refersTo(document, to, other) && world.sees(other) && holds(other))
    if (next === undefined)
      return { ...inner, name: `${name}.${inner.name}`, holds: (one) => leadsTo(one, link, inner.holds) }
    const [nextName, nextLink] = next
    const holds = (one: Stored) => leadsTo(one, link, (other) => leadsTo(other, nextLink, inner.holds))
    return { ...inner, name: `${name}.${nextName}.${inner.name}`, holds }
  }
  if (form >= 2 && manys.length + ones.length > 0) {
    const isMany = manys.length > 0 && (ones.length === 0 || random(3) > 0)
    const [name, link] = pick(random, isMany ? manys : ones)
    const inner = random(4) === 0 ? [] : [someCondition(random, link.to, hops - 1, world)]
    const some = random(2) === 0
    const related = (one: Stored, other: Stored) =>
      isMany ? refersTo(other, link, one) : refersTo(one, link, other)
    const text = inner.map((part) => `${part.name}.${part.rest}`)
    const isFound = (one: Stored) =>
      world.all[link.to].some(
        (other) => related(one, other) && world.sees(other) && inner.every(({ holds }) => holds(other)),
      )
    return {
      name,
      rest: `${some ? 'some' : 'none'}.(${text.join(',')})`,
      holds: (one) => isFound(one) === some,
    }
  }
  return ownCondition(random)
}

interface Filter {
  readonly pairs: readonly (readonly [name: string, value: string])[]
  readonly holds: (document: Stored) => boolean
}

/** A filter over at most two references in each condition, of which there are two. */
export function someFilter(random: Random, kind: Kind, world: World): Filter {
  const [one, other] = [someCondition(random, kind, 2, world), someCondition(random, kind, 2, world)]
  const pair = ({ name, rest }: Condition) => [name, rest] as const
  const grouped = ({ name, rest }: Condition) => `${name}.${rest}`
  switch (random(4)) {
    case 0:
      return { pairs: [], holds: () => true }
    case 1:
      return { pairs: [pair(one)], holds: one.holds }
    case 2:
      return { pairs: [pair(one), pair(other)], holds: (at) => one.holds(at) && other.holds(at) }
    default:
      return {
        pairs: [['or', `(${grouped(one)},${grouped(other)})`]],
        holds: (at) => one.holds(at) || other.holds(at),
      }
  }
}

/** Null counts as the largest; texts are compared by code point. */
function compare(a: unknown, b: unknown): number {
  if (!there(a) || !there(b)) return Number(there(b)) - Number(there(a))
  return typeof a === 'number'
    ? a - Number(b)
    : Buffer.compare(Buffer.from(String(a)), Buffer.from(String(b)))
}

interface Order {
  readonly text: string | undefined
  readonly sort: (a: Stored, b: Stored) => number
}

/** @param lastDescends true if ids follow the direction of the key */
function someOrder(random: Random, lastDescends: boolean): Order {
  const key = pick(random, [undefined, 'n', 'status'] as const)
  const descending = random(2) === 0
  const sign = descending ? -1 : 1
  const byId = (a: Stored, b: Stored) => compare(a.id, b.id) * (lastDescends && key !== undefined ? sign : 1)
  return {
    text: key === undefined ? undefined : `${key}.${descending ? 'desc' : 'asc'}`,
    sort: (a, b) => (key === undefined ? 0 : compare(a[key], b[key]) * sign) || byId(a, b),
  }
}

/** A branch of `expand`, and what a document gets by it. */
interface Branch {
  readonly name: string
  readonly text: string
  readonly valueFor: (document: Stored) => unknown
}

function someBranches(random: Random, kind: Kind, levels: number, world: World): Branch[] {
  const names = [...Object.keys(ONE[kind]), ...Object.keys(MANY[kind])]
  return names.filter(() => random(3) === 0).map((name) => someBranch(random, kind, name, { levels, world }))
}

function someBranch(
  random: Random,
  kind: Kind,
  name: string,
  { levels, world }: { readonly levels: number; readonly world: World },
): Branch {
  const link = ONE[kind][name] ?? MANY[kind][name]
  if (link === undefined) throw new TypeError(`${kind} has no ${name}`)
  const isMany = MANY[kind][name] !== undefined
  const isCount = isMany && random(4) === 0
  const below = isCount || levels < 2 ? [] : someBranches(random, link.to, levels - 1, world)
  const filter = random(3) === 0 ? [someCondition(random, link.to, 1, world)] : []
  const order = someOrder(random, false)
  const size = random(2) === 0 ? undefined : 1 + random(3)
  const settings = [
    ...filter.map((one) => `${one.name}=${one.rest}`),
    ...(isMany && !isCount && order.text !== undefined ? [`order=${order.text}`] : []),
    ...(isMany && !isCount && size !== undefined ? [`size=${size}`] : []),
  ]
  const members = isCount ? 'count' : below.map(({ text }) => text).join(',')
  const found = (one: Stored) =>
    world.all[link.to].filter(
      (other) =>
        (isMany ? refersTo(other, link, one) : refersTo(one, link, other)) &&
        world.sees(other) &&
        filter.every(({ holds }) => holds(other)),
    )
  const shown = (other: Stored) => withBranches(other, below)
  const valueFor = (one: Stored) => {
    if (isCount) return { count: found(one).length }
    if (!isMany) return found(one).map(shown)[0] ?? null
    const all = found(one).toSorted(order.sort)
    return all.slice(0, size ?? 20).map(shown)
  }
  return { name, text: `${name}(${[members, ...settings].join(';')})`, valueFor }
}

const withBranches = (document: Stored, branches: readonly Branch[]): Stored =>
  branches.length === 0
    ? document
    : {
        ...document,
        _expand: Object.fromEntries(branches.map(({ name, valueFor }) => [name, valueFor(document)])),
      }

/** A random list, and what it answers on all of its pages. */
export function someList(random: Random, kind: Kind, world: World) {
  const filter = someFilter(random, kind, world)
  const order = someOrder(random, true)
  const expand = someBranches(random, kind, 2, world)
  const size = pick(random, ['5', '100'])
  const pairs = [
    ...filter.pairs,
    ...(order.text === undefined ? [] : [['order', order.text] as const]),
    ...(expand.length === 0 ? [] : [['expand', expand.map(({ text }) => text).join(',')] as const]),
    ['page[size]', size] as const,
  ]
  const rows = world.all[kind]
    .filter((one) => world.sees(one) && filter.holds(one))
    .toSorted(order.sort)
    .map((one) => withBranches(one, expand))
  return { pairs, rows, filtered: filter.pairs.length > 0, expanded: expand.length > 0 }
}
