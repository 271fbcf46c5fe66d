package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

// This file reads the frames of a client, by section 5.2 of RFC 6455; frame_writer.go writes the frames of the server.
// gorilla/websocket does only the handshake: its connection keeps a buffer, and a goroutine has to wait in its read for the next
// message.
const (
	finalBit              = 0x80 // of the first byte: the last frame of its message
	reservedBits          = 0x70 // of the first byte: for extensions, of which the server knows none
	maskBit               = 0x80 // of the second byte: set by every client
	maxControlPayload     = 125  // bytes of a ping, a pong or a close
	maxPooledMessageBytes = 4096 // bytes of memory for a message that a frameReader keeps for its next user

	continuationFrame = 0 // the opcode of every frame of a message but the first
)

// frameReader holds the bytes that were read from a connection and not used yet, and the message of which a part has arrived. A socket
// borrows a frameReader while it reads.
type frameReader struct {
	buffer                 [512]byte    // bytes that were read
	unusedStart, unusedEnd int          // the bytes buffer[unusedStart:unusedEnd] are not used yet
	message                bytes.Buffer // the payload of the message so far
	messageOpcode          int          // of the message: text or binary
	messageBegun           bool         // a frame of the message has arrived, but not the last one
}

// frameReaders holds frameReaders for reuse. A socket that waits for input by an inputWatch holds none.
var frameReaders = sync.Pool{New: func() any { return new(frameReader) }}

// borrowFrameReader borrows a frameReader. It keeps only the memory for a message, emptied, from its last user.
func borrowFrameReader() *frameReader {
	in := frameReaders.Get().(*frameReader)
	in.unusedStart, in.unusedEnd, in.messageBegun = 0, 0, false
	in.message.Reset()
	return in
}

// free gives the frameReader back. Memory for a message above maxPooledMessageBytes is not kept.
func (in *frameReader) free() {
	if in.message.Cap() > maxPooledMessageBytes {
		in.message = bytes.Buffer{}
	}
	frameReaders.Put(in)
}

// isBetweenMessages reports whether the input is between two messages: all bytes that were read have been used, and no message has
// begun.
func (in *frameReader) isBetweenMessages() bool {
	return in.unusedStart == in.unusedEnd && !in.messageBegun
}

// readBytes reads until n bytes are in the buffer, marks them as used and returns them. They are valid until the next read.
func (in *frameReader) readBytes(from io.Reader, n int) ([]byte, error) {
	// Unused bytes move to the front. n is at most maxControlPayload, so they leave enough room.
	if in.unusedStart+n > len(in.buffer) {
		in.unusedEnd = copy(in.buffer[:], in.buffer[in.unusedStart:in.unusedEnd])
		in.unusedStart = 0
	}
	for in.unusedEnd-in.unusedStart < n {
		read, err := from.Read(in.buffer[in.unusedEnd:])
		if in.unusedEnd += read; err != nil && in.unusedEnd-in.unusedStart < n {
			return nil, err
		}
	}
	in.unusedStart += n
	return in.buffer[in.unusedStart-n : in.unusedStart], nil
}

// frame is the head of a frame.
type frame struct {
	opcode int     // the kind of the frame, such as text, ping or close, as a number of RFC 6455
	final  bool    // it is the last frame of its message
	length int64   // of the payload, in bytes
	mask   [4]byte // four bytes with which the client has masked the payload
}

// protocolError is the error for a frame that no client may send. Its text is the reason in the close frame.
type protocolError struct{ reason string }

// Error returns the text that the client receives.
func (e protocolError) Error() string { return e.reason }

// readFrameHead reads the head of the next frame.
func (in *frameReader) readFrameHead(from io.Reader) (f frame, err error) {
	head, err := in.readBytes(from, 2)
	if err != nil {
		return f, err
	}
	f = frame{opcode: int(head[0] & 0x0f), final: head[0]&finalBit != 0, length: int64(head[1] &^ maskBit)}
	if faults := in.frameFaults(f, head); len(faults) > 0 {
		return f, protocolError{strings.Join(faults, ", ")}
	}
	switch f.length {
	case 126:
		if head, err = in.readBytes(from, 2); err != nil {
			return f, err
		}
		f.length = int64(binary.BigEndian.Uint16(head))
	case 127:
		if head, err = in.readBytes(from, 8); err != nil {
			return f, err
		}
		if f.length = int64(binary.BigEndian.Uint64(head)); f.length < 0 {
			return f, protocolError{"bad length"}
		}
	}
	// The mask comes behind the length. A frame without one was refused above.
	if head, err = in.readBytes(from, len(f.mask)); err == nil {
		copy(f.mask[:], head)
	}
	return f, err
}

// frameFaults returns the rules that the first two bytes of a frame break.
func (in *frameReader) frameFaults(f frame, head []byte) (faults []string) {
	check := func(broken bool, fault string) {
		if broken {
			faults = append(faults, fault)
		}
	}
	check(head[0]&reservedBits != 0, "reserved bits set")
	switch f.opcode {
	case websocket.CloseMessage, websocket.PingMessage, websocket.PongMessage:
		check(f.length > maxControlPayload, "control frame longer than 125 bytes")
		check(!f.final, "control frame without FIN")
	case websocket.TextMessage, websocket.BinaryMessage:
		check(in.messageBegun, "message before the end of another one")
	case continuationFrame:
		check(!in.messageBegun, "continuation of no message")
	default:
		check(true, fmt.Sprintf("unknown opcode %d", f.opcode))
	}
	check(head[1]&maskBit == 0, "no mask")
	return faults
}

// readPayload appends the payload of a frame to the message. The memory grows with the bytes that arrive, and not with the announced
// length.
func (in *frameReader) readPayload(from io.Reader, f frame) error {
	start := in.message.Len()
	buffered := in.buffer[in.unusedStart:in.unusedEnd]
	buffered = buffered[:min(int64(len(buffered)), f.length)]
	in.message.Write(buffered)
	in.unusedStart += len(buffered)
	if left := f.length - int64(len(buffered)); left > 0 {
		read, err := in.message.ReadFrom(io.LimitReader(from, left))
		if err != nil {
			return err
		}
		if read < left {
			return io.ErrUnexpectedEOF
		}
	}
	unmask(in.message.Bytes()[start:], f.mask)
	return nil
}

// readControlPayload reads the payload of a ping, a pong or a close.
func (in *frameReader) readControlPayload(from io.Reader, f frame) ([]byte, error) {
	payload, err := in.readBytes(from, int(f.length))
	unmask(payload, f.mask)
	return payload, err
}

// skipPayload drops the payload of a frame.
func (in *frameReader) skipPayload(from io.Reader, f frame) error {
	buffered := min(int64(in.unusedEnd-in.unusedStart), f.length)
	in.unusedStart += int(buffered)
	_, err := io.CopyN(io.Discard, from, f.length-buffered)
	return err
}

// unmask removes the client's mask, by exclusive or with its four bytes in turn. Clients mask their frames so that no proxy can
// take a frame for an HTTP request.
func unmask(payload []byte, mask [4]byte) {
	for i := range payload {
		payload[i] ^= mask[i&3]
	}
}

var (
	// errClientClosed ends a socket after the client's close frame, which is no fault. errMessageTooLong is a fault of the client:
	// socket.refuse sends it a close frame with the reason.
	errClientClosed   = errors.New("the client has closed the connection")
	errMessageTooLong = errors.New("the message is too long")
)

// closeAnswerCode returns the code to answer a close frame with, or a protocolError.
func closeAnswerCode(payload []byte) (code int, err error) {
	if len(payload) == 0 {
		return websocket.CloseNoStatusReceived, nil
	}
	if len(payload) == 1 {
		return 0, protocolError{"close frame of 1 byte"}
	}
	code = int(binary.BigEndian.Uint16(payload))
	if !isClientCloseCode(code) {
		return 0, protocolError{fmt.Sprintf("bad close code %d", code)}
	}
	if !utf8.Valid(payload[2:]) {
		return 0, protocolError{"close reason that is not UTF-8"}
	}
	return code, nil
}

// isClientCloseCode reports whether a client may send a code, by section 7.4 of RFC 6455 and the registry of IANA.
func isClientCloseCode(code int) bool {
	switch code {
	case websocket.CloseNoStatusReceived, websocket.CloseAbnormalClosure, 1004:
		return false
	}
	return code >= websocket.CloseNormalClosure && code <= 1014 || code >= 3000 && code <= 4999
}
