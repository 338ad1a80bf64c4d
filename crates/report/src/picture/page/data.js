// The embedded data: see format.md.

/** Reads the columns of an inflated profile. */
class Columns {
    constructor(bytes) {
        const view = new DataView(bytes.buffer, bytes.byteOffset);
        const length = view.getUint32(0, true);
        this.bytes = bytes;
        this.header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
        this.starts = new Map();
        let at = 4 + length;
        for (const column of this.header.columns) {
            this.starts.set(column.name, [at, at + column.bytes]);
            at += column.bytes;
        }
    }

    /** The value of a column that is JSON. */
    json(name) {
        const [start, end] = this.starts.get(name);
        return JSON.parse(new TextDecoder().decode(this.bytes.subarray(start, end)));
    }

    /** The numbers of a column, in `into`. */
    numbers(name, into) {
        const bytes = this.bytes;
        let at = this.starts.get(name)[0];
        for (let index = 0; index < into.length; index++) {
            let value = bytes[at++];
            if (value > 127) {
                value &= 127;
                for (let unit = 128, more = true; more; unit *= 128) {
                    const byte = bytes[at++];
                    value += (byte & 127) * unit;
                    more = byte > 127;
                }
            }
            into[index] = value;
        }
        return into;
    }
}

/** The bytes that base64 stands for. */
function from_base64(text) {
    if (Uint8Array.fromBase64) {
        return Uint8Array.fromBase64(text);
    }
    const plain = atob(text);
    const bytes = new Uint8Array(plain.length);
    for (let index = 0; index < bytes.length; index++) {
        bytes[index] = plain.charCodeAt(index);
    }
    return bytes;
}

/** Unpacks the profile in the element with this id. */
async function read_profile(id) {
    const element = document.getElementById(id);
    const packed = from_base64(element.textContent.trim());
    element.remove();
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    return new Profile(new Columns(bytes));
}
