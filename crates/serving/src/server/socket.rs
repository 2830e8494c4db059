//! Socket options and binding of the port.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;

use crate::error::ServingError;
use crate::options::ServingOptions;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;

/// Listens on the address of `options`. An unspecified address means all interfaces, of both families.
pub(super) fn listen(options: &ServingOptions) -> Result<(TcpListener, SocketAddr), ServingError> {
    let address = SocketAddr::new(options.bind_address, options.port);
    let failed = |problem| ServingError::Listen {
        address,
        flag: options.port_flag,
        problem,
    };
    let listener = if options.bind_address.is_unspecified() {
        let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), options.port);
        open(both, options).or_else(|error| match error.kind() {
            // The port is taken in one family: the other alone would hide it.
            io::ErrorKind::AddrInUse | io::ErrorKind::PermissionDenied => Err(error),
            // A machine without IPv6.
            _ => open(address, options),
        })
    } else {
        open(address, options)
    };
    let listener = listener.and_then(TcpListener::from_std).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    Ok((listener, address))
}

fn open(address: SocketAddr, options: &ServingOptions) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED) {
        socket.set_only_v6(false)?;
    }
    // A server that is started again must not wait for the connections of the one before it to be forgotten.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(options.permit_port_sharing)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}
