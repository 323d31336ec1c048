/** The form of an approval in HTML: a field for each property of its JSON Schema, and the values that it sends. */

import { isObject } from '../core/json.ts'
import { escapeHtml } from '../features/identity/pages/pages.ts'

type Fields = Readonly<Record<string, string>>

interface Property {
  readonly type?: unknown
  readonly enum?: readonly unknown[]
  readonly title?: string
  readonly description?: string
  readonly [keyword: string]: unknown
}

/** Separates names of form fields from those of the page. */
const PREFIX = 'form.'

function propertiesOf(schema: unknown): [name: string, property: Property, isRequired: boolean][] {
  const { properties = {}, required = [] } = (isObject(schema) ? schema : {}) as {
    properties?: Record<string, Property>
    required?: readonly string[]
  }
  return Object.entries(properties).map(([name, property]) => [name, property, required.includes(name)])
}

/** @param values what was sent before, if it was refused */
export function formFields(schema: unknown, values: Fields): string {
  return propertiesOf(schema)
    .map(([name, property, isRequired], index) =>
      fieldOf({ name, property, isRequired, index, value: values[PREFIX + name] ?? defaultOf(property) }),
    )
    .join('')
}

const defaultOf = ({ default: value }: Property): string =>
  value === undefined ? '' : typeof value === 'string' ? value : JSON.stringify(value)

interface Field {
  readonly name: string
  readonly property: Property
  readonly isRequired: boolean
  readonly index: number
  readonly value: string
}

function fieldOf({ name, property, isRequired, index, value }: Field): string {
  const { title = name, description } = property
  const id = `field-${index}`
  const hint = description === undefined ? '' : `<small id="${id}-hint">${escapeHtml(description)}</small>`
  const described = description === undefined ? '' : ` aria-describedby="${id}-hint"`
  const attributes = `id="${id}" name="${escapeHtml(PREFIX + name)}"${described}${isRequired && property.type !== 'boolean' ? ' required' : ''}`
  if (property.type === 'boolean') {
    const checked = value === 'true' || value === 'on' ? ' checked' : ''
    return `<label for="${id}"><input type="checkbox" value="true" ${attributes}${checked}>${escapeHtml(title)}</label>${hint}`
  }
  const label = `<label for="${id}">${escapeHtml(title)}${isRequired ? '' : ' (optional)'}</label>`
  return `${label}${controlOf(property, attributes, value)}${hint}`
}

function controlOf(property: Property, attributes: string, value: string): string {
  const { type, enum: choices, minLength, maxLength, minimum, maximum } = property
  if (choices !== undefined) {
    const options = ['', ...choices.map(textOf)].map(
      (choice) =>
        `<option value="${escapeHtml(choice)}"${choice === value ? ' selected' : ''}>${escapeHtml(choice)}</option>`,
    )
    return `<select ${attributes}>${options.join('')}</select>`
  }
  const bounds = Object.entries({ minlength: minLength, maxlength: maxLength, min: minimum, max: maximum })
    .filter(([, bound]) => typeof bound === 'number')
    .map(([key, bound]) => ` ${key}="${bound}"`)
    .join('')
  const text = escapeHtml(value)
  if (type === 'integer' || type === 'number')
    return `<input type="number" step="${type === 'integer' ? 1 : 'any'}" value="${text}" ${attributes}${bounds}>`
  if (type === 'string' && typeof maxLength === 'number' && maxLength <= 200)
    return `<input type="text" value="${text}" ${attributes}${bounds}>`
  return `<textarea rows="3" ${attributes}${bounds}>${text}</textarea>`
}

const textOf = (choice: unknown) => (typeof choice === 'string' ? choice : JSON.stringify(choice))

/** The value of the form, as the schema declares its types; undefined if there is no form. */
export function formValue(schema: unknown, fields: Fields): unknown {
  if (schema === null || schema === undefined) return undefined
  const entries = propertiesOf(schema).flatMap(([name, property, isRequired]) => {
    const value = typedValue(property, fields[PREFIX + name] ?? '', isRequired)
    return value === undefined ? [] : [[name, value] as const]
  })
  return Object.fromEntries(entries)
}

/** Text that has not the form of its type is passed on, and refused by the schema. */
function typedValue({ type, enum: choices }: Property, text: string, isRequired: boolean): unknown {
  if (type === 'boolean') return text === 'true' || text === 'on'
  if (choices !== undefined) return choices.find((choice) => textOf(choice) === text) ?? (text || undefined)
  if (text === '') return type === 'string' && isRequired ? '' : undefined
  if (type === 'string') return text
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
