/** The values of `format` in schemas of collections: those of JSON Schema that are cheap to test, and exact numbers. */

import Format from 'typebox/format'
import { canonicalOf, type NumberFormat } from './canonical-text.ts'

const EXACT: readonly NumberFormat[] = ['decimal', 'int64']

/** Without `regex`, which would compile texts of documents. */
export const FORMATS: readonly string[] = [
  'date-time',
  'date',
  'time',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'uri',
  'uri-reference',
  'uuid',
  'json-pointer',
  ...EXACT,
]

const isExact = (format: string): format is NumberFormat => (EXACT as readonly string[]).includes(format)

/** True if a text is of a format. @param format one of `FORMATS` */
export const hasFormat = (format: string, text: string): boolean =>
  isExact(format) ? canonicalOf(format, text) !== undefined : Format.Test(format, text)
