/**
 * The annotations of tools (MCP, "Tool Annotations"): their schema, the values that parts of the platform give them, how those of
 * sources and of admins are read, and the effect that they tell people and the database. No other file names a hint, so that a new
 * one is added here alone; it counts for consent if {@link isStronger} compares it.
 */

import Type, { type Static } from 'typebox'

/** All hints. */
export const FullAnnotations = Type.Object({
  readOnlyHint: Type.Boolean(),
  destructiveHint: Type.Boolean(),
  idempotentHint: Type.Boolean(),
  openWorldHint: Type.Boolean(),
})
export type Annotations = Readonly<Static<typeof FullAnnotations>>
export type Hint = keyof Annotations

/** The hints that an admin sets for a tool. */
export const ChosenAnnotations = Type.Partial(FullAnnotations, {
  additionalProperties: false,
  description: 'Annotations of the tool, which may only be stricter than those of the source.',
})
type ChosenAnnotations = Static<typeof ChosenAnnotations>

/** The value of each hint with which clients trust a tool least. MCP presumes the same of a tool that does not say. */
export const STRICTEST: Annotations = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
}
export const HINTS = Object.keys(STRICTEST) as Hint[]

/** The hints of a tool that changes nothing, and reaches no system outside the platform. */
export const READS: Annotations = {
  readOnlyHint: true,
  destructiveHint: false,
  idempotentHint: true,
  openWorldHint: false,
}
/** Adds something; a repetition adds it again. */
export const INSERTS: Annotations = {
  readOnlyHint: false,
  destructiveHint: false,
  idempotentHint: false,
  openWorldHint: false,
}
/** Replaces or deletes something; a repetition changes nothing more. */
export const CHANGES: Annotations = { ...INSERTS, destructiveHint: true, idempotentHint: true }

/** Of a tool over an HTTP method: a document does not say what a POST does, so it may change anything. */
export function annotationsOfMethod(method: string): Annotations {
  const reads = method === 'get' || method === 'head'
  return {
    readOnlyHint: reads,
    destructiveHint: !reads,
    idempotentHint: reads || method === 'put' || method === 'delete',
    openWorldHint: true,
  }
}

/**
 * What an operation of the platform does. `runs`: a flow or a tool of others, which may change anything and reach other systems.
 */
export type OperationEffect = 'reads' | 'adds' | 'changes' | 'runs'

/** Of a tool of the platform's own server, without hints that have no meaning for it. */
export function annotationsOfOperation(effect: OperationEffect, method: string): Partial<Annotations> {
  if (effect === 'reads') return { readOnlyHint: true, openWorldHint: false }
  return {
    readOnlyHint: false,
    destructiveHint: effect !== 'adds',
    idempotentHint: method === 'PUT' || method === 'DELETE',
    openWorldHint: effect === 'runs',
  }
}

/** Those that an MCP server declares for its tool, with what the protocol presumes of the others. */
export function claimedAnnotations(declared: Readonly<Record<string, unknown>>): Annotations {
  const claimed = eachHint((hint) => {
    const value = declared[hint]
    return typeof value === 'boolean' ? value : STRICTEST[hint]
  })
  // A tool that only reads destroys nothing, even if its server declares that it does.
  return claimed.readOnlyHint ? { ...claimed, destructiveHint: false } : claimed
}

/**
 * Those of a tool with the choices of an admin. A tool that only reads destroys nothing: an admin who trusts its server in the one need
 * not repeat the other.
 * @param claimed what the server of the tool declares
 */
export function curatedAnnotations(
  annotations: Annotations,
  claimed: Annotations | undefined,
  chosen: ChosenAnnotations = {},
): Annotations {
  const isTrusted = claimed?.readOnlyHint === true && chosen.readOnlyHint === true
  return { ...annotations, ...(isTrusted && { destructiveHint: false }), ...chosen }
}

/** True if a choice would make clients trust a tool more than its source allows. */
export const weakens = (derived: Annotations, hint: Hint, value: boolean): boolean =>
  value !== derived[hint] && value !== STRICTEST[hint]

/** Those of a tool that may call each of these tools: as strict as the strictest. */
export const strictestOf = (all: readonly Annotations[]): Annotations =>
  eachHint((hint) => (all.some((one) => one[hint] === STRICTEST[hint]) ? STRICTEST[hint] : !STRICTEST[hint]))

const eachHint = (read: (hint: Hint) => boolean): Annotations =>
  Object.fromEntries(HINTS.map((hint) => [hint, read(hint)])) as Annotations

/** Weakest first. */
const EFFECTS = ['reads', 'adds', 'changes'] as const
export type Effect = (typeof EFFECTS)[number]

/** The hints by which a tool has an effect. One whose hints contradict each other counts as the stronger of the two. */
export const EFFECT_HINTS: Readonly<Record<Effect, Partial<Annotations>>> = {
  reads: { readOnlyHint: true, destructiveHint: false },
  adds: { readOnlyHint: false, destructiveHint: false },
  changes: { destructiveHint: true },
}
/** The hints of a tool that may reach other systems. */
export const OPEN_WORLD: Partial<Annotations> = { openWorldHint: true }

export const effectOf = (annotations: Annotations): Effect =>
  EFFECTS.find((effect) => {
    const hints = Object.entries(EFFECT_HINTS[effect])
    return hints.every(([hint, value]) => annotations[hint as Hint] === value)
  }) ?? 'changes'

/** True if clients may call a tool without asking their user. */
export const readsOnly = ({ readOnlyHint }: Annotations): boolean => readOnlyHint

const WORDS: Readonly<Record<Effect, string>> = {
  reads: 'reads data',
  adds: 'adds data',
  changes: 'changes or deletes data',
}

/** @returns for example `changes or deletes data, and may reach other systems` */
export function effectInWords(annotations: Annotations): string {
  const words = WORDS[effectOf(annotations)]
  return annotations.openWorldHint ? `${words}, and may reach other systems` : words
}

/** Orders tools by what people should notice first: the stronger effect, then whether it may reach other systems. */
export const strengthOf = ({ annotations }: { readonly annotations: Annotations }): number =>
  EFFECTS.indexOf(effectOf(annotations)) * 2 + Number(annotations.openWorldHint)

/** True if a tool has an effect that it did not have: a consent to what it was does not cover it. */
export const isStronger = (annotations: Annotations, before: Annotations): boolean =>
  EFFECTS.indexOf(effectOf(annotations)) > EFFECTS.indexOf(effectOf(before)) ||
  (annotations.openWorldHint && !before.openWorldHint)
